"""Pipes to a node's admin port: with a certificate, or without one for inspection only."""

from __future__ import annotations

from twisted.internet.interfaces import IHandshakeListener
from zope.interface import implementer

from txqueue.wire.limits import GuardedPipe
from txqueue.wire.pipe import Responder
from txqueue.wire.tls import peer_name

__all__ = ["CertifiedPipe", "UncertifiedPipe"]

# Seconds for which a connection without a certificate stays open after a command.
IDLE = 60


@implementer(IHandshakeListener)
class CertifiedPipe(GuardedPipe):
    """One end of a TLS connection; no command is executed before the handshake has finished."""

    def handshakeCompleted(self) -> None:
        """Check the name in the peer's verified certificate."""
        if peer_name(self.transport) is None:
            self.drop("its certificate has no name")
            return
        self.watch_reading()
        self.introduce()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command; none for an unidentified peer."""
        if not self.is_known:
            self.drop("sent a command before it showed a certificate")
            return None
        return super().locateResponder(name)


class UncertifiedPipe(GuardedPipe):
    """One end of a connection of this host without TLS, which always remains unidentified."""

    def connectionMade(self) -> None:
        """Start the timeout for the first command."""
        super().connectionMade()
        if not self.is_closed:
            self.watch_reading()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command, and allow a longer time for the next."""
        self._wait(IDLE)
        return super().locateResponder(name)
