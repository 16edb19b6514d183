"""The work of ``txqueue demo``, and the shortest application that a node can serve."""

from __future__ import annotations

from typing import Any

from attrs import define

from txqueue.model.work_item import WorkItem


@define
class Nothing(WorkItem):
    """A job without work, so that the demo measures the queue alone."""

    number: int

    work_type = "txqueue.demo.nothing"

    async def perform(self, job: Any) -> None:
        """Do nothing."""
