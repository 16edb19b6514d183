"""Work that a schedule enqueues every second."""

from __future__ import annotations

from typing import Any

from attrs import define

from txqueue.model.schedule import CatchUp, Every
from txqueue.model.work_item import WorkItem

__all__ = ["TICK", "Tick"]

TICK = "txqueue_torture.unnoted.tick"


@define
class Tick(WorkItem):
    """Work that does nothing; a job of each second, also of those without a database."""

    work_type = TICK
    schedule = Every(1, catch_up=CatchUp.ALL)

    async def perform(self, job: Any) -> None:
        """Do nothing."""
