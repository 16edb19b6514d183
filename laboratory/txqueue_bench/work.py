"""The work items of the measurements, which record their runs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.task import deferLater

from txqueue.model.work_item import WorkItem
from txqueue_bench.tally import FOLDER_VARIABLE, Tally

__all__ = ["ENOUGH", "Counted", "Endless", "Timed"]

ENOUGH = "enough"
"""The name of the file whose existence ends endless jobs."""

# Seconds between two checks for that file.
LOOK = 0.02

_tally = Tally()


@define
class Counted(WorkItem):
    """Work that records its run, and does nothing else."""

    number: int

    work_type = "txqueue_bench.counted"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Record `number`, which is at least 1."""
        _tally.add(self.number)


@define
class Endless(WorkItem):
    """Work that records its start, and runs until the file `ENOUGH` exists."""

    number: int

    work_type = "txqueue_bench.endless"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Record the monotonic time in nanoseconds; then wait for the file."""
        _tally.add(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        enough = Path(os.environ[FOLDER_VARIABLE]) / ENOUGH
        while not enough.exists():
            await deferLater(running_reactor(), LOOK)


@define
class Timed(WorkItem):
    """Work that records how long ago it was enqueued, by the host's monotonic clock."""

    sent_at: int

    work_type = "txqueue_bench.timed"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Record the nanoseconds since `sent_at`; if that is 0, the job is not timed."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if self.sent_at:
            _tally.add(now - self.sent_at)


def running_reactor() -> Any:
    """Return the reactor of this process, imported only now, as an import installs a reactor."""
    from twisted.internet import reactor

    return reactor
