#!/usr/bin/env bash
# Python: a signal handler sees the context variables of the task that it interrupts, not those of the main program.
#
# Guess: a handler of signal.signal() runs apart from all tasks, so that contextvars have the values of the module.
# Seen (Python's own asyncio, Twisted 26.10.0): it runs in the context of whatever code it interrupts, a task of asyncio
# or a coroutine of Twisted. A process whose reactor is blocked by one of a hundred tasks can say which on a signal,
# without any work for each task. What a handler sets in a context variable is, likewise, set for that task alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install twisted==26.10.0
"$folder/venv/bin/python" - <<'PY'
import asyncio
import contextvars
import os
import platform
import signal
import time

from twisted.internet import defer, task
from twisted.internet.task import react

job = contextvars.ContextVar("job", default="none")
mark = contextvars.ContextVar("mark", default="none")
seen = []


def note(number, frame):
    seen.append(job.get())
    mark.set(job.get())


def block():
    """Block the loop, and be signalled meanwhile."""
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.01)


async def perform(name, pause, blocks):
    job.set(name)
    await pause()
    if blocks:
        block()
    return mark.get()


async def in_asyncio():
    names = ("first", "second", "third")
    runs = (perform(name, lambda: asyncio.sleep(0), name == "second") for name in names)
    print("asyncio", platform.python_version(), marks := await asyncio.gather(*runs), seen)
    assert (marks, seen) == (["none", "second", "none"], ["second"])


async def in_twisted(reactor):
    seen.clear()
    names = ("first", "second", "third")
    runs = [
        defer.ensureDeferred(perform(name, lambda: task.deferLater(reactor, 0), name == "second"))
        for name in names
    ]
    print("twisted", marks := await defer.gatherResults(runs), seen)
    assert seen == ["second"], seen
    assert marks[1] == "second" and job.get() == "none"


signal.signal(signal.SIGUSR1, note)
block()
assert seen.pop() == "none"
mark.set("none")
asyncio.run(in_asyncio())
react(lambda reactor: defer.ensureDeferred(in_twisted(reactor)))
PY
