"""What an application's process and the node that it joined say to each other."""

from __future__ import annotations

from twisted.protocols import amp

from txqueue.wire.long_text import LongText

__all__ = ["CannotJoin", "Credit", "Deliver", "Join", "WakeNode", "Withdraw"]


class CannotJoin(Exception):
    """The node does not take this client: it says why."""


class Join(amp.Command):
    """Client to node, first: here I am, and this is the queue that I enqueue to.

    Answered with the node's name. What it gives credit for may come before the answer.
    """

    arguments = [(b"identity", amp.Unicode())]
    response = [(b"name", amp.Unicode())]
    errors = {CannotJoin: b"CANNOT_JOIN"}


class Credit(amp.Command):
    """Node to client: enqueue jobs of so much more weight assigned to that run of a node.

    Of jobs for the node itself it is told all that is to be known, of others only the numbers.
    """

    arguments = [
        (b"node_id", amp.Integer()),
        (b"incarnation", amp.Integer()),
        (b"weight", amp.Integer()),
        (b"is_own", amp.Boolean()),
    ]
    response = []
    requiresAnswer = False


class Withdraw(amp.Command):
    """Node to client: what is left of the credit for that run of a node holds no more."""

    arguments = [(b"incarnation", amp.Integer())]
    response = []
    requiresAnswer = False


class Deliver(amp.Command):
    """Client to node: a transaction has committed, and these are its assigned jobs.

    The heads are ``[[incarnation, lane, assignment, weight], ...]`` in JSON; the texts are as many
    chunks as the database would write them, one a line, empty for jobs of other nodes.
    """

    arguments = [(b"heads", LongText()), (b"texts", LongText())]
    response = []
    requiresAnswer = False


class WakeNode(amp.Command):
    """Client to node: a transaction has committed jobs that are not assigned: look for them."""

    arguments = []
    response = []
    requiresAnswer = False
