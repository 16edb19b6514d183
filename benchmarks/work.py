"""The work items of the measurements in this folder."""

from typing import Any

from attrs import define
from twisted.internet.task import deferLater

from txqueue import WorkItem


@define
class Nothing(WorkItem):
    """Does nothing."""

    number: int = 0

    async def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Waits(WorkItem):
    """Waits for a time, as for a service elsewhere."""

    seconds: float = 0.0

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Wait."""
        from twisted.internet import reactor

        await deferLater(reactor, self.seconds, lambda: None)
