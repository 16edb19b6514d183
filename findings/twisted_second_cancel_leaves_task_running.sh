#!/usr/bin/env bash
# Twisted: a second cancel() of Deferred.fromFuture(task) ends the Deferred at once, while the task runs on.
#
# Guess: each cancel() goes to the asyncio task, and the Deferred fires when the task has ended.
# Seen (Twisted 26.10.0, asyncio reactor): the first cancel() reaches the task. If the task takes that CancelledError
# as a wish and goes on, the Deferred waits for it, as it should; but a second cancel() does not reach the task, and
# errbacks the Deferred with twisted's CancelledError at once. The task runs on to its end, and its result is dropped.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install twisted==26.10.0
"$folder/venv/bin/python" - <<'PY'
import asyncio

from twisted.internet import asyncioreactor

loop = asyncio.new_event_loop()
asyncioreactor.install(loop)

import twisted
from twisted.internet import defer, reactor, task

seen = []


async def stubborn():
    for _ in range(2):
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            seen.append("task: cancelled, goes on")
    seen.append("task: ends")
    return "result"


def fired(result):
    seen.append(f"deferred: {result if isinstance(result, str) else result.type.__module__ + '.' + result.type.__name__}")


async def cancel(times):
    seen.clear()
    running = loop.create_task(stubborn())
    deferred = defer.Deferred.fromFuture(running).addBoth(fired)
    for number in range(times):
        await task.deferLater(reactor, 0.1)
        seen.append(f"cancel {number + 1}")
        deferred.cancel()
    await task.deferLater(reactor, 1.5)
    print(twisted.__version__, seen, running.result())
    return list(seen)


async def main(_):
    once = await cancel(1)
    twice = await cancel(2)
    start = ["cancel 1", "task: cancelled, goes on"]
    assert once == [*start, "task: ends", "deferred: result"], once
    assert twice == [
        *start,
        "cancel 2",
        "deferred: twisted.internet.defer.CancelledError",
        "task: ends",
    ], twice


task.react(lambda reactor: defer.ensureDeferred(main(reactor)))
PY
