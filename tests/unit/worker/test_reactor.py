"""A worker's reactor, in a process of its own, as there is one of each."""

import subprocess
import sys

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
