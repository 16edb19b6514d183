"""Reads archived jobs beside the reactor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.threads import deferToThreadPool

from txqueue.store.inquiries.jobs import read_archived


@frozen
class ArchiveProcess:
    """Waits in a thread for the process that answers a question.

    Args:
        reactor: Has the threads.
    """

    _reactor: Any

    async def job(self, days: Sequence[Mapping[str, Any]], job_id: int) -> dict[str, Any] | None:
        """Return all columns of an archived job; see `read_archived`."""
        if not days:
            return None
        pool = self._reactor.getThreadPool()
        return await deferToThreadPool(self._reactor, pool, read_archived, days, job_id)
