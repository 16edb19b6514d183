"""The entry point of a worker process: ``python -m txqueue.worker``, started by a master."""

import ctypes
import os
import select
import signal
import sys
import time
from threading import Thread
from types import FrameType
from typing import cast

PIPE_FD, SHARED_FD = 3, 4
GRACE = 5.0
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run a worker until its master closes the pipe."""
    # The master decides when the worker ends, but a terminal or supervisor signals the whole
    # process group. The signal handler does nothing; SIG_IGN would be inherited by programs that a
    # job starts.
    signal.signal(signal.SIGINT, _heard)
    signal.signal(signal.SIGTERM, _heard)
    _die_with_master()
    from twisted.internet.main import installReactor

    from txqueue.system.clock import steady
    from txqueue.worker.reactor import WorkerReactor

    reactor = steady(WorkerReactor)()
    installReactor(reactor)
    from txqueue.logs.setup import begin_worker_log, end_worker_log
    from txqueue.worker.service import IWorkerReactor, WorkerService

    begin_worker_log()
    Thread(target=_end_with_master, args=(os.dup(PIPE_FD),), daemon=True).start()
    # zope has no type for what provides several interfaces.
    WorkerService(cast("IWorkerReactor", reactor), SHARED_FD).attach(PIPE_FD)
    reactor.run(installSignalHandlers=False)
    # A handler stuck in a thread must not keep the process alive.
    end_worker_log()
    os._exit(0)


def _die_with_master() -> None:
    """Make Linux kill this process when its master dies, even if it is stopped or stuck in C code.

    A node that detects the master's end returns its jobs to the queue at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_with_master(pipe: int) -> None:
    """Exit soon after the master, even if a handler blocks the reactor: others get its jobs."""
    poll = select.poll()
    poll.register(pipe, 0)
    poll.poll()
    time.sleep(GRACE)
    os._exit(1)


def _heard(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


if __name__ == "__main__":
    main()
