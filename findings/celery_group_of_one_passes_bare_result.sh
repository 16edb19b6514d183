#!/usr/bin/env bash
# Celery: a group of one task inside a chain passes on its bare result; at the front of a chain, a list of one.
#
# Guess: the task after a group gets the list of its results, as many as the group has tasks.
# Seen (Celery 5.7.0): `first | group([t, t]) | last` gives `last` a list of two, `first | group([t]) | last` the result
# itself: the group of one is replaced by its task. `group([t]) | last` and `chord([t])(last)` give a list of one. So a
# group over data of the user fails, or does something else, on the day that the data has one row.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install celery==5.7.0
"$folder/venv/bin/python" - <<'PY'
import celery
from celery import Celery, chord, group
from celery.contrib.testing.worker import start_worker

app = Celery("groups", broker="memory://", backend="cache+memory://")


@app.task
def first():
    return "x"


@app.task
def one(value="x"):
    return value


@app.task
def last(value):
    return value


with start_worker(app, pool="solo", perform_ping_check=False, loglevel="CRITICAL"):
    seen = {
        name: canvas.apply_async().get(timeout=30)
        for name, canvas in {
            "two, inside": first.s() | group([one.s(), one.s()]) | last.s(),
            "one, inside": first.s() | group([one.s()]) | last.s(),
            "one, at the front": group([one.s()]) | last.s(),
            "one, of a chord": chord([one.s()], last.s()),
        }.items()
    }
print(celery.__version__, seen)
assert seen["two, inside"] == ["x", "x"], seen
assert seen["one, inside"] == "x", seen
assert seen["one, at the front"] == seen["one, of a chord"] == ["x"], seen
PY
