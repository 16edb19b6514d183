"""The AMP commands between two masters: assignment numbers and loads, never payloads."""

from __future__ import annotations

from twisted.protocols import amp

from txqueue.wire.arguments import LongText

__all__ = ["Hello", "Kept", "Lives", "NotAPeer", "ReportLoad", "Steal", "Take", "WakePeer"]


class NotAPeer(Exception):
    """The sender of the hello is not a live node in the database."""


class Hello(amp.Command):
    """Sent first, by the master that started later: its own name, incarnation and version.

    The answer has the receiver's. Each end checks the name of the other against its certificate,
    and name and incarnation against the database.
    """

    arguments = [
        (b"name", amp.Unicode()),
        (b"incarnation", amp.Integer()),
        (b"version", amp.Unicode()),
    ]
    response = [
        (b"name", amp.Unicode()),
        (b"incarnation", amp.Integer()),
        (b"version", amp.Unicode()),
    ]
    errors = {NotAPeer: b"NOT_A_PEER"}


class ReportLoad(amp.Command):
    """Report the sender's load: a JSON object of numbers."""

    arguments = [(b"load", LongText())]
    requiresAnswer = False


class Take(amp.Command):
    """Hand over assignments, joined by commas; the receiver reads and runs their jobs."""

    arguments = [(b"assignments", LongText())]


class Steal(amp.Command):
    """Ask for unstarted work up to a weight; the answer has the assignments that are passed on."""

    arguments = [(b"weight", amp.Integer())]
    response = [(b"assignments", LongText()), (b"weight", amp.Integer())]


class Lives(amp.Command):
    """Ask a node without recent heartbeats whether it is alive."""

    response = [(b"lives", amp.Boolean())]


class Kept(amp.Command):
    """Report that the sender has renewed the receiver's lease, as it answered `Lives`."""

    requiresAnswer = False


class WakePeer(amp.Command):
    """Report that there may be work in the database."""

    requiresAnswer = False
