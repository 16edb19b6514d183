#!/usr/bin/env bash
# SQLAlchemy: Session.begin_nested() sends SAVEPOINT at the next use of the session, not when it is called.
#
# Guess: inside of `with session.begin_nested():` whatever goes over the session's connection is undone with the block.
# Seen (SQLAlchemy 2.1.9): a connection that was taken from the session before the block runs its statement before any
# SAVEPOINT, and the rollback of the block leaves that statement as it is, without an error. Taken again inside of the
# block, with session.connection(), the savepoint comes first. Code that keeps the connection of a session must not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install sqlalchemy==2.1.9
"$folder/venv/bin/python" - <<'PY'
import sqlalchemy
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session

engine = create_engine("sqlite://")
sent = []
event.listen(engine, "savepoint", lambda connection, name: sent.append("savepoint"))
event.listen(engine, "before_cursor_execute", lambda c, cursor, sql, *rest: sent.append(sql.lower()))


def statements(is_taken_again):
    sent.clear()
    with Session(engine) as session, session.begin():
        connection = session.connection()
        with session.begin_nested():
            if is_taken_again:
                connection = session.connection()
            connection.execute(text("select 1"))
    return [sql for sql in sent if sql == "select 1" or sql.startswith("savepoint")]


kept, taken_again = statements(False), statements(True)
print(sqlalchemy.__version__, "kept:", kept, "taken again:", taken_again)
assert kept[0] == "select 1", kept
assert taken_again[0].startswith("savepoint") and taken_again[-1] == "select 1", taken_again
PY
