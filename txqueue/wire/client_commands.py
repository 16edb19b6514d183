"""What an application's process and the node that it joined say to each other."""

from __future__ import annotations

import json
from collections.abc import Sequence

from twisted.protocols import amp

from txqueue.model.assignment import Assignment
from txqueue.wire.long_text import LongText

__all__ = [
    "CannotJoin",
    "Credit",
    "Deliver",
    "Join",
    "WakeNode",
    "Withdraw",
    "delivered",
    "delivery",
]


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
    requiresAnswer = False


class Withdraw(amp.Command):
    """Node to client: what is left of the credit for that run of a node holds no more."""

    arguments = [(b"incarnation", amp.Integer())]
    requiresAnswer = False


class Deliver(amp.Command):
    """Client to node: a transaction has committed, and these are its assigned jobs.

    The heads are a JSON array of objects with ``incarnation``, ``assignment``, ``lane`` and
    ``weight``; the chunks are as many, one a line, each empty for a job of another node.
    """

    arguments = [(b"heads", LongText()), (b"chunks", LongText())]
    requiresAnswer = False


class WakeNode(amp.Command):
    """Client to node: a transaction has committed jobs that are not assigned: look for them."""

    requiresAnswer = False


def delivery(assignments: Sequence[Assignment]) -> tuple[str, str]:
    """Return what `Deliver` says of assignments of one job each: its heads, and its chunks."""
    heads = [
        {
            "incarnation": each.incarnation,
            "assignment": each.number,
            "lane": each.lane,
            "weight": each.weight,
        }
        for each in assignments
    ]
    return json.dumps(heads), "\n".join([each.chunk for each in assignments])


def delivered(heads: str, chunks: str) -> list[Assignment]:
    """Return the assignments that `Deliver` names."""
    return [
        Assignment(head["incarnation"], head["assignment"], head["lane"], 1, head["weight"], chunk)
        for head, chunk in zip(json.loads(heads), chunks.split("\n"), strict=True)
    ]
