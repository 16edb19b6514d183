"""The notification service detects lost connections, and poolers that drop notifications."""

from typing import Any

from attrs import define, field
from twisted.internet.task import Clock

from tests.unit.node.doubles import is_rung
from txqueue.errors import ConfigurationError
from txqueue.node.notifications import CHECK, UNHEARD_RETRY, Notifications
from txqueue.node.wakeups import Wakeups


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
