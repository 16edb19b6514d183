"""What the queue for asyncio does otherwise than that for threads: all else is the same text.

`txqueue/sync/environment.py` has the same names; see `docs/build_sync.py`.
"""

from __future__ import annotations

import asyncio
from asyncio import Future, Semaphore
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from attrs import define, field

from txqueue.errors import ConfigurationError
from txqueue.model.job import Job
from txqueue.policy.awaited_ends import read_limit
from txqueue.standalone.sessions import Home
from txqueue.standalone.waiting import StandaloneEndWaiter
from txqueue.store.enqueueing.encryption import not_in_time
from txqueue.system.clock import unbroken

T = TypeVar("T")


class AsyncHome(Home):
    """The process and the event loop in which a queue was connected."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        """Whether the loop is closed: it has ended its tasks, and what they had."""
        return self._loop.is_closed()

    def check(self) -> None:
        """Check that this is the place.

        Raises:
            ConfigurationError: When it is not.
        """
        super().check()
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "the queue was connected in another event loop, to which its connections belong",
                "connect a queue in each event loop; or call asyncio.run() once, for all",
            )


async def aside(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that reads files, in a thread, as all that may block."""
    return await asyncio.to_thread(function, *arguments)


async def to_the_end(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Call a function that closes something, whatever cancels the caller."""
    await unbroken(close())


async def acquired(semaphore: Semaphore, seconds: float) -> bool:
    """Acquire a semaphore; return False if that has taken too long."""
    try:
        async with asyncio.timeout(seconds):
            return await semaphore.acquire()
    except TimeoutError:
        return False


async def ended_in_time(ending: Future[T], job_id: int, timeout: float | None) -> T:
    """Return the ended job, or what else is awaited for it.

    Raises:
        WaitTimeout: When it has not ended in time.
    """
    try:
        async with asyncio.timeout(timeout) as bound:
            return await ending
    except TimeoutError:
        if not bound.expired():
            raise
        raise not_in_time(job_id, timeout or 0.0) from None


@define(eq=False)
class AsyncEndWaiter(StandaloneEndWaiter):
    """All callers of one queue that wait for jobs."""

    _next_read: tuple[set[int], asyncio.Task[dict[int, Job]]] | None = field(
        default=None, init=False
    )

    async def read(self, job_id: int, timeout: float | None) -> Job | None:
        """Return a job, None if it is not there; the calls of one turn share a read.

        Raises:
            WaitTimeout: When the database has not answered in time.
        """
        if self._next_read is None:
            job_ids: set[int] = set()
            self._next_read = job_ids, asyncio.create_task(self._read(job_ids))
        asked, answer = self._next_read
        asked.add(job_id)
        limit = read_limit(timeout)
        return (await ended_in_time(asyncio.shield(answer), job_id, limit)).get(job_id)

    async def _read(self, job_ids: set[int]) -> dict[int, Job]:
        self._next_read = None
        return {job.id: job for job in await self.jobs_of(list(job_ids))}

    @contextmanager
    def waiting(self, job_id: int) -> Iterator[asyncio.Future[Job | None]]:
        """Wait for a job inside the block, which reads the job, and calls `look_on` if it runs.

        Returns:
            A context manager whose value is a future of the ended job, None if it is gone.
        """
        ending: asyncio.Future[Job | None] = asyncio.get_running_loop().create_future()
        self.add(job_id, ending)
        try:
            yield ending
        finally:
            self.discard(job_id, ending)
            ending.cancel()
