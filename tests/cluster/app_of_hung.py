"""An application whose handlers hang in their first run."""

import time
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from tests.cluster.app import Noop
from txqueue import Runtime, WorkItem

__all__ = ["Blocking", "InThread", "Noop", "Waiting"]


def is_first(job: Any) -> bool:
    """Tell whether this is the first run of a job, and note that."""
    noted = Path(f"ran-{job.id}")
    if noted.exists():
        return False
    noted.touch()
    return True


@define
class InThread(WorkItem):
    """Hangs in a thread, as a call of a library without a timeout does."""

    runtime = Runtime.THREAD

    def perform(self, job: Any) -> int:
        """Return the number of the run."""
        if is_first(job):
            time.sleep(3600)
        return int(job.attempt)


@define
class Waiting(WorkItem):
    """Waits for what never comes, alone in its group."""

    group = "waiting"

    async def perform(self, job: Any) -> int:
        """Return the number of the run."""
        if is_first(job):
            await Deferred()
        return int(job.attempt)


@define
class Blocking(WorkItem):
    """Blocks its worker process."""

    async def perform(self, job: Any) -> int:
        """Return the number of the run."""
        if is_first(job):
            time.sleep(3600)
        return int(job.attempt)
