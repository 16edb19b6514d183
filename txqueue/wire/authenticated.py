"""Pipes to the admin port of a node: with a certificate of our authority, or only to look."""

from __future__ import annotations

from twisted.internet.interfaces import IHandshakeListener
from zope.interface import implementer

from txqueue.wire.limits import GuardedPipe
from txqueue.wire.pipe import Responder
from txqueue.wire.tls import peer_name

__all__ = ["CertifiedPipe", "UncertifiedPipe"]

# Seconds that an uncertified connection stays open after it has said something.
IDLE = 60


@implementer(IHandshakeListener)
class CertifiedPipe(GuardedPipe):
    """One end of a TLS connection; nothing is carried out before the handshake is over."""

    def handshakeCompleted(self) -> None:
        """The other end has proved its certificate; see that it is of ours."""
        if peer_name(self.transport) is None:
            self.drop("its certificate has no name")
            return
        self.watch_reading()
        self.introduce()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Find what carries out a command; nothing does for a stranger."""
        if not self.is_known:
            self.drop("spoke before it showed a certificate")
            return None
        return super().locateResponder(name)


class UncertifiedPipe(GuardedPipe):
    """One end of a connection of this host without TLS: it always remains a stranger."""

    def connectionMade(self) -> None:
        """Give the other end some seconds to say something."""
        super().connectionMade()
        if not self.is_closed:
            self.watch_reading()

    def locateResponder(self, name: bytes) -> Responder | None:
        """Find what carries out a command, and wait for another for longer."""
        self._wait(IDLE)
        return super().locateResponder(name)
