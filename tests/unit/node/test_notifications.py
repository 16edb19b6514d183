"""Ears hear of losses, and know when they are deaf."""

from typing import Any

from attrs import define, field
from twisted.internet.task import Clock

from txqueue.errors import ConfigurationError
from txqueue.node.notifications import CHECK, UNHEARD_RETRY, Notifications


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


def ears(listening: Any, woken: list[bool]) -> Notifications:
    """Ears on it."""
    return Notifications(Clock(), listening, lambda: woken.append(True))


async def test_after_a_loss_the_sweep_looks_for_what_was_missed() -> None:
    """And only then."""
    woken: list[bool] = []
    hearing = ears(Listening([True, False]), woken)
    assert await hearing.step() == CHECK
    assert await hearing.step() == CHECK
    assert woken == [True]


async def test_who_is_deaf_does_not_try_all_the_time() -> None:
    """A pooler in transaction mode stays one: each try would cost it connections."""
    woken: list[bool] = []
    hearing = ears(Listening([ConfigurationError("deaf", "")]), woken)
    assert await hearing.step() == UNHEARD_RETRY
    assert not woken
