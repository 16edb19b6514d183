"""The work items of the measurements: ordinary ones, which count themselves."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.task import deferLater

from txqueue.bench.tally import FOLDER_VARIABLE, Tally
from txqueue.model.work_item import WorkItem

__all__ = ["ENOUGH", "Counted", "Endless", "Timed"]

ENOUGH = "enough"
"""The file of the folder at which endless jobs end."""

# Seconds between two looks for it.
LOOK = 0.02

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
class Endless(WorkItem):
    """Notes when it starts, and runs until the file is there."""

    number: int

    work_type = "txqueue.bench.endless"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Note the nanoseconds of the monotonic clock; then wait."""
        _tally.add(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        enough = Path(os.environ[FOLDER_VARIABLE]) / ENOUGH
        while not enough.exists():
            await deferLater(running_reactor(), LOOK)


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


def running_reactor() -> Any:
    """Return the reactor of this process, which is not to be chosen before it runs."""
    from twisted.internet import reactor

    return reactor
