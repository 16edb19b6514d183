"""Work to enqueue, and a queue to enqueue it on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from attrs import define

from txqueue import WorkItem, WorkQueue

TRICKY = "it's \"100%\" %s <b onclick='x()'>&amp;</b> 👩‍🚀 \\ \n\t"
FAR = datetime(2999, 1, 1, tzinfo=UTC)


@define
class Note(WorkItem):
    """Some work."""

    work_type = "enqueue.note"

    text: str = ""

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Letter(WorkItem):
    """Work with a policy of its own."""

    work_type = "enqueue.letter"
    queue = "mail"
    priority = 7
    weight = 3

    to: str

    @property
    def group(self) -> str:
        """One at a time for each addressee."""
        return f"to:{self.to}"

    def perform(self, job: Any) -> None:
        """Do nothing."""


@asynccontextmanager
async def opened(dsn: str, connections: int = 4) -> AsyncIterator[WorkQueue]:
    """Connect, and close at the end."""
    queue = await WorkQueue.connect(dsn, connections=connections)
    try:
        yield queue
    finally:
        await queue.close()
