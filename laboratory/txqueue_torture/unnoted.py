"""Work that does not record its runs, for scenarios with very many jobs."""

from __future__ import annotations

import os
from typing import Any

from attrs import define

from txqueue.model.work_item import WorkItem
from txqueue_torture.recorder import NODE_VARIABLE
from txqueue_torture.work import sleep_for

__all__ = ["UNNOTED", "Unnoted"]

UNNOTED = "txqueue_torture.unnoted"
LONG = 600.0


@define
class Unnoted(WorkItem):
    """Work that records nothing, and takes ten minutes if it runs on one node.

    Attributes:
        on: The name of that node; empty for none.
    """

    on: str = ""

    work_type = UNNOTED

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - a handler takes it
        """Do nothing, or sleep if this is the node named `on`."""
        if self.on and os.environ[NODE_VARIABLE] == self.on:
            await sleep_for(LONG)
