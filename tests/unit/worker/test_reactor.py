"""A worker's reactor, in a process of its own, as there is one of each."""

import selectors
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from txqueue.worker.entry import ExactSelector

SCRIPT = """
import asyncio
from contextvars import ContextVar

from twisted.internet.main import installReactor
from txqueue.worker.entry import WorkerReactor

reactor = WorkerReactor()
installReactor(reactor)

from twisted.internet.defer import Deferred

job = ContextVar("job", default=None)


async def task():
    await asyncio.sleep(0.01)
    print("task", job.get())


def begin():
    reactor.callLater(0.2, lambda: print("timer", job.get()))
    job.set(7)
    ended = Deferred.fromFuture(asyncio.ensure_future(task()))
    ended.addCallback(lambda _: reactor.callLater(0, lambda: print("turn", job.get())))
    job.set(None)


reactor.callWhenRunning(begin)
reactor.callLater(0.4, reactor.stop)
reactor.run()
"""


def test_timers_run_in_the_context_of_no_job() -> None:
    """Even if a job set the next one; with Twisted's reactor that job's would run all others."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout.splitlines(), ended.stderr) == (["task 7", "turn None", "timer None"], "")


def test_a_short_wait_is_not_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epoll counts in milliseconds; a descriptor that is ready is returned all the same."""
    waits: list[float] = []
    monkeypatch.setattr("txqueue.worker.entry.MOST_DESCRIPTORS", 1 << 20)
    monkeypatch.setattr("select.select", lambda *given: waits.append(given[-1]))
    selector = ExactSelector()
    ours, theirs = socket.socketpair()
    with closing(selector), ours, theirs:
        selector.register(ours, selectors.EVENT_READ)
        theirs.send(b"1")
        keys = [key.fileobj for wait in (0.0003, 0, 1.0) for key, _ in selector.select(wait)]
    assert (waits, keys) == ([0.0003], [ours] * 3)
