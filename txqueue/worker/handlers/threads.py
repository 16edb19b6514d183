"""The threads in which handlers run."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any, Final, Self

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.worker.handlers.blocking import ReactorCalls
from txqueue.worker.handlers.waiting import Ended, called

__all__ = ["MOST_THREADS", "HandlerThreads"]

MOST_THREADS: Final = 1_000


class HandlerThreads:
    """Runs functions in threads, and tells which of them outlive their jobs.

    A thread cannot be interrupted: when a job times out, its function goes on.

    Args:
        reactor: Receives the results.
        pool: Has the threads, and is started.
        most: No job may start while so many threads are in use.
    """

    def __init__(self, reactor: IStoreReactor, pool: ThreadPool, most: int) -> None:
        self._reactor = reactor
        self._pool = pool
        self.most = most
        self._busy: dict[Any, list[ReactorCalls]] = {}
        self._leaving: dict[Any, Deferred[None]] = {}

    @classmethod
    def of_worker(cls, reactor: IStoreReactor, capacity: int) -> Self:
        """Return the threads of a worker, as many as its capacity can use."""
        most = min(max(1, capacity), MOST_THREADS)
        # A function must not wait for a thread, as its timeout would run meanwhile: a job of a
        # workset that has left one thread behind takes another one, beyond `most`.
        pool = ThreadPool(0, 2 * most, "handlers")
        # The process does not wait for a function that hangs when it exits.
        pool.threadFactory = partial(Thread, daemon=True)  # type: ignore[assignment]  # any callable
        pool.start()
        return cls(reactor, pool, most)

    @property
    def free(self) -> int:
        """How many more jobs may start a function."""
        return max(0, self.most - sum(map(len, self._busy.values())))

    def run(self, job: Any, function: Callable[[ReactorCalls], Any]) -> Deferred[Ended]:
        """Call a function in a thread, with the context variables of the caller.

        Args:
            job: The job of the function.
            function: The function; it gets what has the reactor's thread do work for it.

        Returns:
            A Deferred of how it ended; cancelling it leaves the thread behind.
        """
        calls = ReactorCalls(job, self._reactor.callFromThread)
        ending: Deferred[Ended] = Deferred(lambda _: calls.close())

        def over(is_done: bool, result: Any) -> None:
            self._reactor.callFromThread(self._over, job, calls, ending, is_done, result)

        self._busy.setdefault(job, []).append(calls)
        self._pool.callInThreadWithCallback(over, copy_context().run, called, function, calls)
        return ending

    def interrupt(self, job: Any) -> None:
        """End what the functions of a job wait for, as the job should end."""
        for calls in self._busy.get(job, ()):
            calls.interrupt()

    def left_by(self, job: Any) -> Deferred[None] | None:
        """Return a Deferred of the end of the threads that an ended job has left behind.

        Returns:
            None if there are none.
        """
        if job not in self._busy:
            return None
        return self._leaving.setdefault(job, Deferred())

    def _over(
        self, job: Any, calls: ReactorCalls, ending: Deferred[Ended], is_done: bool, result: Any
    ) -> None:
        calls.close()
        self._busy[job].remove(calls)
        if not self._busy[job]:
            del self._busy[job]
        if ending.called:
            self._left(job)
        elif is_done:
            ending.callback(result)
        else:
            ending.errback(result if isinstance(result, Failure) else Failure(result))

    def _left(self, job: Any) -> None:
        if job not in self._busy and job in self._leaving:
            self._leaving.pop(job).callback(None)
