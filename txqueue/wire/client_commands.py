"""The AMP commands between an application's process and the node that it joined."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twisted.protocols import amp

from txqueue.model.assignment import Assignment
from txqueue.wire.arguments import LongText

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

_LARGEST, _LARGEST_ASSIGNMENT = 2**31 - 1, 2**63 - 1
_LAST_LANE = 7


class CannotJoin(Exception):
    """The node refuses this client, with a reason."""


class Join(amp.Command):
    """Client to node, first command: join, naming the queue to which the client enqueues.

    `place` names the queue for people. The answer has the node's name. Credit may arrive before
    the answer.
    """

    arguments = [(b"identity", amp.Unicode()), (b"place", amp.Unicode(optional=True))]
    response = [(b"name", amp.Unicode())]
    errors = {CannotJoin: b"CANNOT_JOIN"}


class Credit(amp.Command):
    """Node to client: grant credit to enqueue more weight, already assigned to a run of a node.

    The client delivers jobs with all their data if `is_own` says that they are assigned to the node
    that it joined, and only the assignments' numbers if they are assigned to another.
    """

    arguments = [
        (b"node_id", amp.Integer()),
        (b"incarnation", amp.Integer()),
        (b"weight", amp.Integer()),
        (b"is_own", amp.Boolean()),
    ]
    requiresAnswer = False


class Withdraw(amp.Command):
    """Node to client: withdraw the unused credit for a run of a node."""

    arguments = [(b"incarnation", amp.Integer())]
    requiresAnswer = False


class Deliver(amp.Command):
    """Client to node: run the assigned jobs of a transaction that has committed.

    The heads are a JSON array of objects with ``incarnation``, ``assignment``, ``lane`` and
    ``weight``, one for each job. The chunks are as many lines, empty for a job of another node.
    """

    arguments = [(b"heads", LongText()), (b"chunks", LongText())]
    requiresAnswer = False


class WakeNode(amp.Command):
    """Client to node: claim jobs, as a transaction has committed some that are not assigned."""

    requiresAnswer = False


def delivery(assignments: Sequence[Assignment]) -> tuple[str, str]:
    """Return the heads and the chunks of `Deliver` for assignments of one job each."""
    # Of numbers only, and so without an encoder of JSON.
    heads = [
        f'{{"incarnation":{assignment.incarnation},"assignment":{assignment.number},'
        f'"lane":{assignment.lane},"weight":{assignment.weight}}}'
        for assignment in assignments
    ]
    return f"[{','.join(heads)}]", "\n".join([assignment.chunk for assignment in assignments])


def delivered(heads: str, chunks: str) -> list[Assignment]:
    """Return the assignments in the heads and the chunks of `Deliver`.

    Raises:
        ValueError: When the heads are none, or have numbers that no assignment can have.
    """
    return [
        Assignment(
            incarnation=_number(head, "incarnation", 1, _LARGEST),
            number=_number(head, "assignment", 1, _LARGEST_ASSIGNMENT),
            lane=_number(head, "lane", 0, _LAST_LANE),
            jobs=1,
            weight=_number(head, "weight", 1, _LARGEST),
            chunk=chunk,
        )
        for head, chunk in zip(json.loads(heads), chunks.split("\n"), strict=True)
    ]


def _number(head: Any, name: str, least: int, most: int) -> int:
    """Return a number of a head, which goes into statements together with those of others."""
    number = head.get(name) if isinstance(head, dict) else None
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"a delivery has no valid {name}")
    return number
