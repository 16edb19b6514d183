"""Limits connections per peer: one that floods a port evicts only its own connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IAddress

from txqueue.wire.limits import GuardedPipe
from txqueue.wire.pipe import Greet, Pipe, PipeServer, Responders

__all__ = ["Admission", "GuardedServer", "crowded_out"]

# How many may be connected that have not proved their identity.
MOST_STRANGERS = 32


def crowded_out(addresses: Sequence[str]) -> int:
    """Decide which stranger makes room for another.

    Args:
        addresses: Where each comes from, in the order in which they came.

    Returns:
        The place of the oldest of those whose address has the most.
    """
    crowds = Counter(addresses)
    return max(range(len(addresses)), key=lambda place: (crowds[addresses[place]], -place))


class Admission:
    """The connections of one port.

    Args:
        most: How many that have proved their identity; further ones are closed unanswered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._from: dict[GuardedPipe, str] = {}

    @property
    def is_full(self) -> bool:
        """Whether no connection can be let in: even evicted ones count for a moment."""
        known = sum(pipe.is_known for pipe in self._from)
        return known >= self._most or len(self._from) - known >= 2 * MOST_STRANGERS

    def admit(self, pipe: GuardedPipe, address: Any) -> None:
        """Let a stranger in; if there are too many, one of those that are most makes room."""
        strangers = [each for each in self._from if not each.is_known and not each.is_closed]
        if len(strangers) >= MOST_STRANGERS:
            place = crowded_out([self._from[each] for each in strangers])
            strangers[place].drop("made room: too many have not proved their identity")
        self._from[pipe] = str(getattr(address, "host", ""))

    def forget(self, pipe: GuardedPipe) -> None:
        """A connection is gone."""
        self._from.pop(pipe, None)

    def hang_up(self) -> None:
        """Close all connections."""
        for pipe in list(self._from):
            pipe.close()


class GuardedServer(PipeServer):
    """Makes a guarded pipe for each connection to an admin port, up to a limit.

    Args:
        responders: For each command the function that carries it out.
        most: How many may be connected at a time that have proved their identity.
        greet: As for `PipeServer`.
        make: Makes a pipe.
    """

    def __init__(
        self,
        responders: Responders,
        most: int,
        greet: Greet | None,
        make: Callable[[Responders, Callable[[], None]], GuardedPipe],
    ) -> None:
        super().__init__(responders, most + 2 * MOST_STRANGERS, greet, make)
        self._admission = Admission(most)

    def buildProtocol(self, addr: IAddress | None) -> Pipe | None:
        """Return a new pipe, or None when there are enough."""
        made = None if self._admission.is_full else super().buildProtocol(addr)
        if isinstance(made, GuardedPipe):
            self._admission.admit(made, addr)
        return made

    def forget(self, pipe: Pipe) -> None:
        """A connection is gone."""
        if isinstance(pipe, GuardedPipe):
            self._admission.forget(pipe)
        super().forget(pipe)
