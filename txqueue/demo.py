"""What ``txqueue demo`` runs, and the shortest application that a node can serve."""

from __future__ import annotations

from typing import Any

from attrs import define

from txqueue.model.work_item import WorkItem

__all__ = ["Nothing"]


@define
class Nothing(WorkItem):
    """Does nothing, so that what a demo shows is the queue alone."""

    number: int

    work_type = "txqueue.demo.nothing"

    async def perform(self, job: Any) -> None:
        """Do nothing."""
