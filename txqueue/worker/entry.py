"""What each worker process does around its work: its signals and log, its reactor, its exit."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import select
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextvars import Context
from threading import Thread
from types import FrameType
from typing import Any, Final, NoReturn, cast

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IReadDescriptor, IWriteDescriptor
from twisted.internet.main import installReactor

from txqueue.logs.setup import begin_worker_log, end_worker_log
from txqueue.system.clock import steady
from txqueue.system.processes import WORKER_NAME, set_process_name, unblock_signals, wake_on_time
from txqueue.worker.master_link import IWorkerReactor, MasterLink

# Shorter waits than so many seconds are exact. `select()` takes no descriptor from 1024 on.
EXACT, MOST_DESCRIPTORS = 0.02, 1024


class ExactSelector(selectors.DefaultSelector):
    """Waits for descriptors as long as it is asked to; epoll counts in whole milliseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the descriptors that are ready, after at most `timeout` seconds."""
        if timeout is not None and 0 < timeout < EXACT and self.fileno() < MOST_DESCRIPTORS:
            select.select([self], [], [], timeout)
            timeout = 0
        return super().select(timeout)


class WorkerReactor(AsyncioSelectorReactor):
    """Every runtime works on the asyncio reactor; asyncio coroutines work on no other.

    Asyncio runs what it is given in the context of the caller, and so the reactor's timers and
    sockets, which serve all jobs, in that of one job. Here they run in a context of no job.
    Coroutines, tasks and threads have contexts of their own.
    """

    def __init__(self) -> None:
        loop = asyncio.SelectorEventLoop(ExactSelector())
        asyncio.set_event_loop(loop)
        super().__init__(loop)

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> DelayedCall:
        """Call a function after a delay in seconds."""
        called: DelayedCall = Context().run(super().callLater, delay, callable, *args, **kwargs)
        return called

    def addReader(self, reader: IReadDescriptor) -> None:
        """Call a descriptor when there is something to read."""
        Context().run(super().addReader, reader)

    def addWriter(self, writer: IWriteDescriptor) -> None:
        """Call a descriptor when there is room to write."""
        Context().run(super().addWriter, writer)


PIPE_FD: Final = 3
"""The descriptor of a worker's pipe to its master."""
SHARED_FD: Final = 4
"""The descriptor of the file for `InFlight`."""
_IGNORED: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
# Seconds in which a worker must exit once its pipe is closed, with all that it runs at its exit.
GRACE: Final = 5.0


def begin_process() -> None:
    """Prepare a worker process, or the template of workers, for the import of the application."""
    # The master decides when the worker ends, but a terminal or supervisor signals the whole
    # process group. The signal handler does nothing; SIG_IGN would be inherited by programs that a
    # job starts.
    for number in _IGNORED:
        signal.signal(number, _ignore)
    unblock_signals()
    begin_worker_log()
    # Functions are called in the reverse order: this one after those that an application registers.
    atexit.register(_exit)


def run_worker() -> NoReturn:
    """Run a worker until its master closes the pipe, and exit."""
    set_process_name(WORKER_NAME)
    wake_on_time()
    reactor = steady(WorkerReactor)()
    installReactor(reactor)
    Thread(target=_end_with_master, args=(os.dup(PIPE_FD),), daemon=True).start()
    # zope has no type for what provides several interfaces.
    MasterLink(cast("IWorkerReactor", reactor), SHARED_FD).attach(PIPE_FD)
    try:
        reactor.run(installSignalHandlers=False)
    except BaseException:
        # A handler has closed the descriptors of the reactor, for example.
        try:
            traceback.print_exc()
            end_worker_log()
        finally:
            os._exit(1)
    # Calls what the application has registered with `atexit`, exporters of traces for example.
    sys.exit()


def _exit() -> NoReturn:
    """Exit without dismantling the interpreter: that would copy all the memory that forks share."""
    logging.shutdown()
    end_worker_log()
    os._exit(0)


def _end_with_master(pipe: int) -> None:
    """Exit soon after the master, even if a handler blocks the reactor: others get its jobs."""
    poll = select.poll()
    poll.register(pipe, 0)
    poll.poll()
    time.sleep(GRACE)
    os._exit(1)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing."""
