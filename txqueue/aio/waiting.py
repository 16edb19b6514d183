"""Waits for jobs to end, in the event loop of the callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from txqueue.model.job import Job
from txqueue.standalone.waiting import StandaloneEndWaiter


class AsyncEndWaiter(StandaloneEndWaiter):
    """All callers of one queue that wait for jobs."""

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
