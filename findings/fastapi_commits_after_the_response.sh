#!/usr/bin/env bash
# FastAPI: what a dependency does after its yield comes after the response: a commit that fails there has answered 201.
#
# Guess: a dependency that yields a connection and commits after the yield is part of the request: if the commit fails
# (a deferred constraint, a lost connection), the client gets 500.
# Seen (FastAPI 0.165.0, Starlette 1.10.0): the client has got 201 by then, and the error is only in the log. With
# Depends(..., scope="function") the dependency ends before the response is sent, and the client gets 500.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install fastapi==0.165.0 starlette==1.10.0 httpx==0.28.1
"$folder/venv/bin/python" - <<'PY'
import asyncio
from typing import Annotated

import fastapi
import httpx
from fastapi import Depends, FastAPI


async def transaction():
    yield "a connection"
    raise RuntimeError("the commit fails")


app = FastAPI()


@app.post("/plain", status_code=201)
async def plain(connection: Annotated[str, Depends(transaction)]):
    return {}


@app.post("/function", status_code=201)
async def in_function(connection: Annotated[str, Depends(transaction, scope="function")]):
    return {}


async def answers():
    # A server writes the error to its log, as this transport does without raising it.
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        return [(await client.post(path)).status_code for path in ("/plain", "/function")]


seen = asyncio.run(answers())
print(fastapi.__version__, seen)
assert seen == [201, 500], seen
PY
