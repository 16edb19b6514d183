"""Work that comes again: declared on its class, and of two types that must not meet."""

from typing import Any

from attrs import define

from tests.cluster.app import Noop
from tests.cluster.diary import diary
from tests.waiting import pause
from txqueue import Cooldown, Every, Key, WorkItem


@define
class EverySecond(Noop):
    """Comes by itself, every second."""

    schedule = Every(1)


@define
class AfterARest(WorkItem):
    """Comes by itself, a second after it has ended."""

    schedule = Cooldown(1)

    async def perform(self, job: Any) -> None:
        """Note that it ran, for a while."""
        with diary.run(job):
            await pause(0.3)


@define
class OfProject(WorkItem):
    """Takes a while; nothing else of the project runs meanwhile."""

    project: int

    group = Key("project:{project}")

    async def perform(self, job: Any) -> None:
        """Note that it ran, for a while."""
        with diary.run(job):
            await pause(0.2)


@define
class SyncOrders(OfProject):
    """Takes what was ordered."""


@define
class SendShipments(OfProject):
    """Sends it."""
