#!/usr/bin/env bash
# Celery: retry_backoff of a task applies to autoretry_for only; self.retry() in the same task waits 180 s.
#
# Guess: the options retry_backoff and retry_jitter of a task are how long its retries wait, whatever asks for them.
# Seen (Celery 5.7.0): with retry_backoff=60 and retry_jitter=False, the first retry of autoretry_for is due after 60 s,
# and that of `raise self.retry(exc=error)` after default_retry_delay, 180 s, and so is each further one, without
# jitter. Tasks that move from one to the other lose their backoff, and retry together.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install celery==5.7.0
"$folder/venv/bin/python" - <<'PY'
import datetime
import threading

import celery
from celery import Celery, signals
from celery.contrib.testing.worker import start_worker

app = Celery("retries", broker="memory://", backend="cache+memory://")
OPTIONS = {"bind": True, "retry_backoff": 60, "retry_jitter": False, "max_retries": 3}
delays, both = {}, threading.Event()


@app.task(name="by itself", autoretry_for=(ValueError,), **OPTIONS)
def automatic(self):
    raise ValueError("no")


@app.task(name="by self.retry()", **OPTIONS)
def manual(self):
    raise self.retry(exc=ValueError("no"))


@signals.before_task_publish.connect
def published(headers, **_):
    if headers["retries"]:
        due = datetime.datetime.fromisoformat(headers["eta"])
        delays[headers["task"]] = (due - datetime.datetime.now(datetime.UTC)).total_seconds()
        if len(delays) == 2:
            both.set()


with start_worker(app, pool="solo", perform_ping_check=False, loglevel="CRITICAL"):
    automatic.delay()
    manual.delay()
    assert both.wait(30), delays
print(celery.__version__, {name: round(delay) for name, delay in delays.items()})
assert 55 < delays["by itself"] <= 60, delays
assert 175 < delays["by self.retry()"] <= 180, delays
PY
