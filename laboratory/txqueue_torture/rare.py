"""A work type that only some nodes have, as when half the fleet has the newer release."""

from __future__ import annotations

from typing import Any

from attrs import define

from txqueue.model.work_item import WorkItem
from txqueue_torture.work import SOON, Draw, Order, kind, noted

__all__ = ["Rare"]


@define
class Rare(WorkItem):
    """Work that does nothing but record its run."""

    intent: str

    work_type = "txqueue_torture.rare"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run."""
        with noted(job, self.intent):
            pass


@kind("rare")
def _rare(draw: Draw) -> Order:
    return Order(Rare(draw.intent))
