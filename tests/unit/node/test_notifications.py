"""The notification service detects lost connections, and poolers that drop notifications."""

from typing import Any

from attrs import define, field
from twisted.internet.task import Clock

from tests.unit.node.doubles import is_rung
from txqueue.errors import ConfigurationError
from txqueue.node.notifications import CHECK, UNHEARD_RETRY, Notifications
from txqueue.node.wakeups import Wakeups
from txqueue.policy.idling import WOKEN
from txqueue.store.replies import HeartbeatReply


@define
class Listening:
    """Stands for a listener: what each `ensure()` brings."""

    brings: list[bool | Exception] = field(factory=list)

    async def ensure(self) -> bool:
        """Listen, or say why not."""
        said = self.brings.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def close(self) -> None:
        """Stop."""


def notifications(listening: Any) -> tuple[Notifications, Wakeups]:
    """The service on it, and what it wakes."""
    wakeups = Wakeups(Clock())
    return Notifications(Clock(), listening, wakeups), wakeups


async def test_after_a_loss_the_claimer_looks_for_what_was_missed() -> None:
    """And only then."""
    service, wakeups = notifications(Listening([True, False]))
    assert await service.step() == CHECK
    assert is_rung(wakeups.claimer)
    assert is_rung(wakeups.scheduler)
    assert await service.step() == CHECK
    assert not is_rung(wakeups.claimer)


async def test_who_is_deaf_does_not_try_all_the_time() -> None:
    """A pooler in transaction mode stays one: each try would cost it connections."""
    service, wakeups = notifications(Listening([ConfigurationError("deaf", "")]))
    assert await service.step() == UNHEARD_RETRY
    assert not is_rung(wakeups.claimer)


def reply(place: int | None, places: int | None) -> HeartbeatReply:
    """Return the answer to a heartbeat of a node at a place."""
    return HeartbeatReply(True, "alive", [], [], place=place, places=places)


def test_a_notification_of_one_job_wakes_a_few_of_many_nodes() -> None:
    """Each decides by its place, as its last heartbeat told."""
    woken = []
    for place in range(100):
        wakeups = Wakeups(Clock())
        wakeups.heard(reply(place, 100))
        wakeups.notified("jobs 1 5")
        woken += [place] * is_rung(wakeups.claimer)
        assert not is_rung(wakeups.scheduler)
    assert len(woken) == WOKEN


def test_a_node_without_room_has_no_place() -> None:
    """It would be woken in the place of one that has room."""
    wakeups = Wakeups(Clock())
    wakeups.heard(reply(3, 100))
    wakeups.heard(reply(None, 99))
    assert wakeups.place is None
