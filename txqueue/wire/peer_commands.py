"""The AMP commands between two masters: numbers and loads, never a job's payload."""

from __future__ import annotations

from twisted.protocols import amp

from txqueue.wire.long_text import LongText

__all__ = ["Hello", "Kept", "Lives", "NotAPeer", "ReportLoad", "Steal", "Take", "WakePeer"]


class NotAPeer(Exception):
    """The sender of the hello is not a live node in the database."""


class Hello(amp.Command):
    """Later to earlier started master, first: its name and incarnation; answered likewise.

    Both are verified: the name against the certificate, both against the database.
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
    """Ask for unstarted work up to a weight; the answer names what was passed on."""

    arguments = [(b"weight", amp.Integer())]
    response = [(b"assignments", LongText()), (b"weight", amp.Integer())]


class Lives(amp.Command):
    """Ask a node without recent heartbeats whether it is alive."""

    response = [(b"lives", amp.Boolean())]


class Kept(amp.Command):
    """Report that the receiver's lease was renewed; it counts from its last answer."""

    requiresAnswer = False


class WakePeer(amp.Command):
    """Report that there may be work in the database."""

    requiresAnswer = False
