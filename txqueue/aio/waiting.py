"""Waits for jobs to end, in the event loop of the callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, field

from txqueue.model.job import Job, State
from txqueue.standalone.waiting import StandaloneEndWaiter


@define(eq=False)
class AsyncEndWaiter(StandaloneEndWaiter):
    """All callers of one queue that wait for jobs."""

    _next_read: tuple[set[int], asyncio.Task[dict[int, Job]]] | None = field(
        default=None, init=False
    )

    async def read(self, job_id: int) -> Job | None:
        """Return a job, None if it is not there; the calls of one turn share a read."""
        if self._next_read is None:
            job_ids: set[int] = set()
            self._next_read = job_ids, asyncio.create_task(self._read(job_ids))
        asked, answer = self._next_read
        asked.add(job_id)
        return (await asyncio.shield(answer)).get(job_id)

    async def _read(self, job_ids: set[int]) -> dict[int, Job]:
        self._next_read = None
        return {job.id: job for job in await self.jobs_in(State, list(job_ids))}

    @contextmanager
    def waiting(self, job_id: int) -> Iterator[asyncio.Future[Job]]:
        """Wait for a job inside the block, which reads the job, and calls `look_on` if it runs.

        Returns:
            A context manager whose value is a future of the ended job.
        """
        ending: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self.add(job_id, ending)
        try:
            yield ending
        finally:
            self.discard(job_id, ending)
            ending.cancel()
