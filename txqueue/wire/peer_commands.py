"""What two masters say to each other: only numbers and loads, never a job's payload."""

from __future__ import annotations

from twisted.protocols import amp

from txqueue.wire.long_text import LongText

__all__ = ["Hello", "Kept", "Lives", "NotAPeer", "ReportLoad", "Steal", "Take", "WakePeer"]


class NotAPeer(Exception):
    """The sender of the hello is not a node that the database names as alive."""


class Hello(amp.Command):
    """The younger master to the older, first: which run of which node calls. Answered likewise.

    Neither is believed: the name must be the certificate's, and both the database's.
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
    """How loaded the sender is: a JSON object of numbers."""

    arguments = [(b"load", LongText())]
    requiresAnswer = False


class Take(amp.Command):
    """Jobs are assigned to you: their assignments, joined by commas. Read and perform them."""

    arguments = [(b"assignments", LongText())]


class Steal(amp.Command):
    """Have you unstarted work of up to this weight? Answered with what was passed on."""

    arguments = [(b"weight", amp.Integer())]
    response = [(b"assignments", LongText()), (b"weight", amp.Integer())]


class Lives(amp.Command):
    """The database has not heard of you for a while: do you live?"""

    response = [(b"lives", amp.Boolean())]


class Kept(amp.Command):
    """Your lease was renewed for you, because you answered: it counts from your last answer."""

    requiresAnswer = False


class WakePeer(amp.Command):
    """There may be work in the database."""

    requiresAnswer = False
