"""A pipe to whoever shows a certificate of our authority: an operator, or a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import classImplements

from txqueue.clock import Clock, Timer
from txqueue.wire.guard import GuardedPipe
from txqueue.wire.pipe import Responders
from txqueue.wire.tls import peer_name

__all__ = ["CertifiedPipe"]

# Seconds for the handshake.
INTRODUCTION = 5


class CertifiedPipe(GuardedPipe):
    """One end of a TLS connection; nothing is carried out before the handshake is over.

    Args:
        clock: Limits how long the handshake takes.
        responders: For each command the function that carries it out.
        lost: Called once when the connection is gone.
    """

    def __init__(self, clock: Clock, responders: Responders, lost: Callable[[], None]) -> None:
        self._clock = clock
        self._deadline: Timer | None = None
        super().__init__(responders, lost)

    def connectionMade(self) -> None:
        """Give the other end some seconds to show who it is."""
        self._deadline = self._clock.callLater(INTRODUCTION, self.drop, "showed no certificate")

    def handshakeCompleted(self) -> None:
        """The other end has proved its certificate; see that it is of ours."""
        if peer_name(self.transport) is None:
            self.drop("its certificate names nobody")
            return
        self.is_known = True
        self._stop_waiting()

    def locateResponder(self, name: bytes) -> Any:
        """Find what carries out a command; nothing does for a stranger."""
        if not self.is_known:
            self.drop("spoke before it showed a certificate")
            return None
        return super().locateResponder(name)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connectionLost(reason)

    def _stop_waiting(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()


classImplements(CertifiedPipe, IHandshakeListener)
