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
    """The node's end of a TLS connection; it executes no command before the handshake is over."""

    def handshakeCompleted(self) -> None:
        """Check the name in the peer's verified certificate."""
        if peer_name(self.transport) is None:
            self.drop("its certificate has no name")
            return
        self.watch_reading()
        self.introduce()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command; None if the peer is not identified."""
        if not self.is_known:
            self.drop("sent a command before it showed a certificate")
            return None
        return super().locateResponder(name)


class UncertifiedPipe(GuardedPipe):
    """The node's end of a connection without TLS from this host; its peer is never identified."""

    def connectionMade(self) -> None:
        """Start the timeout for the first command."""
        super().connectionMade()
        if not self.is_closed:
            self.watch_reading()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Return the handler of a command, and allow a longer time for the next command."""
        self._wait(IDLE)
        return super().locateResponder(name)
