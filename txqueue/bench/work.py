"""The work items of the measurements: ordinary ones, which count themselves."""

from __future__ import annotations

import time
from typing import Any

from attrs import define

from txqueue.bench.tally import Tally
from txqueue.work import WorkItem

__all__ = ["Counted", "Timed"]

_tally = Tally()


@define
class Counted(WorkItem):
    """Notes that it ran, and nothing else."""

    number: int

    work_type = "txqueue.bench.counted"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Note the number; it is at least 1."""
        _tally.add(self.number)


@define
class Timed(WorkItem):
    """Notes how long ago it was sent, by the monotonic clock of the host that it shares."""

    sent_at: int

    work_type = "txqueue.bench.timed"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Note the nanoseconds since it was sent; one sent at 0 only warms up."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if self.sent_at:
            _tally.add(now - self.sent_at)
