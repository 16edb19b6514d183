"""What the queue for threads does otherwise than that for asyncio: all else is the same text.

`txqueue/aio/environment.py` has the same names; see `docs/build_sync.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock, Semaphore, Thread
from typing import Any, TypeVar

from txqueue.model.job import Job
from txqueue.standalone.requests import Call, Target
from txqueue.standalone.sessions import Home
from txqueue.standalone.waiting import StandaloneEndWaiter
from txqueue.store.enqueueing.encryption import closed_before, not_in_time
from txqueue.store.inquiries.inquiry import Rows, answer
from txqueue.store.inquiries.jobs import about_awaited

T = TypeVar("T")
# Seconds in which the thread ends, unless the database does not answer.
_ENDS_WITHIN = 5.0

BlockingHome = Home


def aside(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that reads files."""
    return function(*arguments)


def to_the_end(close: Callable[[], None]) -> None:
    """Call a function that closes something: nothing cancels a thread."""
    close()


def acquired(semaphore: Semaphore, seconds: float) -> bool:
    """Acquire a semaphore; return False if that has taken too long."""
    return semaphore.acquire(timeout=seconds)


def ended_in_time(ending: Future[T], job_id: int, timeout: float | None) -> T:
    """Return the ended job.

    Raises:
        WaitTimeout: When it has not ended in time.
    """
    try:
        return ending.result(timeout)
    except TimeoutError:
        raise not_in_time(job_id, timeout or 0.0) from None


class BlockingEndWaiter:
    """All callers of one queue that wait for jobs, whatever their threads.

    Args:
        call: Makes a call over another connection than the one that listens.
        target: The schema, and the database to listen to; without one, it looks only.
    """

    def __init__(self, call: Callable[[Call], Rows], target: Target) -> None:
        async def called(made: Call) -> Rows:
            # In the thread nothing else waits for what this waits for.
            return call(made)

        self._ask = call
        self._schema = target.schema
        self._ends = StandaloneEndWaiter(called, target)
        self._lock = Lock()
        self._callers: dict[Future[Job | None], int] = {}
        self._thread: Thread | None = None
        # Not before the thread: a fork would close the parent's.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    @contextmanager
    def waiting(self, job_id: int) -> Iterator[Future[Job | None]]:
        """Wait for a job inside the block, which reads the job, and calls `look_on` if it runs.

        Returns:
            A context manager whose value is a future of the ended job.

        Raises:
            DatabaseUnavailable: When the queue is closed.
        """
        ending: Future[Job | None] = Future()
        with self._lock:
            if self._is_closed:
                raise closed_before(job_id)
            self._callers[ending] = job_id
            self._call(self._ends.add, job_id, ending)
        try:
            yield ending
        finally:
            with self._lock:
                self._callers.pop(ending, None)
                self._call(self._ends.discard, job_id, ending)

    def read(self, job_id: int, _: float | None) -> Job | None:
        """Return a job, None if it is not there; nothing ends the call of a thread early."""
        return next(iter(answer(about_awaited(self._schema, [job_id]), self._ask)), None)

    def look_on(self) -> None:
        """Look and listen from now on, while callers wait."""
        with self._lock:
            if self._thread is None and not self._is_closed:
                # Not that of Windows by default, which psycopg cannot use.
                self._loop = asyncio.SelectorEventLoop()
                self._thread = Thread(
                    target=_run, args=(self._loop,), name="txqueue ends", daemon=True
                )
                self._thread.start()
            if not self._is_closed:
                self._call(self._ends.look_on)

    def close(self) -> None:
        """End all waits and the thread, and close the connection that listens."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            callers, self._callers = self._callers, {}
        for ending, job_id in callers.items():
            if not ending.done():
                ending.set_exception(closed_before(job_id))
        if self._loop is not None and self._thread is not None and not was_closed:
            asyncio.run_coroutine_threadsafe(self._end(self._loop), self._loop)
            self._thread.join(_ENDS_WITHIN)

    async def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            await self._ends.close()
        finally:
            loop.stop()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the thread, in the order of the calls; here while there is none."""
        if self._loop is None:
            function(*arguments)
        elif not self._is_closed:
            self._loop.call_soon_threadsafe(function, *arguments)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
