"""Limits connections per peer: one that floods a port evicts only its own connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from twisted.internet.interfaces import IAddress

from txqueue.wire.descriptor_guard import DescriptorGuard
from txqueue.wire.limits import GuardedPipe
from txqueue.wire.pipe import Greet, Pipe, PipeServer, Responders

__all__ = ["Admission", "GuardedServer", "crowded_out", "network_of"]

# The most connections that are not identified yet.
MOST_STRANGERS = 32


def crowded_out(addresses: Sequence[str]) -> int:
    """Decide which unidentified connection to close for a new one.

    Args:
        addresses: The address of each connection, oldest first.

    Returns:
        The index of the oldest connection of the address that has the most connections.
    """
    crowds = Counter(addresses)
    return max(range(len(addresses)), key=lambda index: (crowds[addresses[index]], -index))


def network_of(address: str) -> str:
    """Return what an address counts with: itself, or its network of 64 bits for IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, 64), strict=False))


class Admission:
    """The connections of one port.

    Args:
        limit: The most identified connections; further ones are closed unanswered.
        descriptors: Refuses connections while descriptors run low.
    """

    def __init__(self, limit: int, descriptors: DescriptorGuard | None = None) -> None:
        self._limit = limit
        self._descriptors = descriptors or DescriptorGuard()
        self._from: dict[GuardedPipe, str] = {}

    @property
    def is_full(self) -> bool:
        """Whether no connection can be accepted; evicted ones count until they are closed."""
        if not self._descriptors.may_accept:
            return True
        known_count = sum(pipe.is_known for pipe in self._from)
        return known_count >= self._limit or len(self._from) - known_count >= 2 * MOST_STRANGERS

    def admit(self, pipe: GuardedPipe, address: Any) -> None:
        """Accept a connection; if too many are unidentified, evict the one that `crowded_out`
        chooses.
        """
        strangers = [
            stranger for stranger in self._from if not stranger.is_known and not stranger.is_closed
        ]
        if len(strangers) >= MOST_STRANGERS:
            index = crowded_out([self._from[stranger] for stranger in strangers])
            strangers[index].drop("evicted: too many connections are not identified")
        self._from[pipe] = str(getattr(address, "host", ""))

    def forget(self, pipe: GuardedPipe) -> None:
        """Forget a closed connection."""
        self._from.pop(pipe, None)

    def hang_up(self) -> None:
        """Close all connections."""
        for pipe in list(self._from):
            pipe.close()


class GuardedServer(PipeServer):
    """Makes a guarded pipe for each connection to an admin port, up to a limit.

    Args:
        responders: The handler of each command.
        limit: The most identified connections at a time.
        greet: As for `PipeServer`.
        make_pipe: Makes the pipe of a connection.
    """

    def __init__(
        self,
        responders: Responders,
        limit: int,
        greet: Greet | None,
        make_pipe: Callable[[Responders, Callable[[], None]], GuardedPipe],
    ) -> None:
        super().__init__(responders, limit + 2 * MOST_STRANGERS, greet, make_pipe)
        self._admission = Admission(limit)

    def buildProtocol(self, addr: IAddress | None) -> Pipe | None:
        """Return a new pipe, or None if the limit is reached."""
        pipe = None if self._admission.is_full else super().buildProtocol(addr)
        if isinstance(pipe, GuardedPipe):
            self._admission.admit(pipe, addr)
        return pipe

    def forget(self, pipe: Pipe) -> None:
        """Forget a closed connection."""
        if isinstance(pipe, GuardedPipe):
            self._admission.forget(pipe)
        super().forget(pipe)
