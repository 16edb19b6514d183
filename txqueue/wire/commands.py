"""The AMP commands between a master and its workers, an application and its node, and two masters;
and the arguments that AMP lacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twisted.protocols import amp

from txqueue.model.assignment import Assignment

_PART = 65_000


class LongText(amp.Argument):
    """Unicode text, divided into several values of a box."""

    def toBox(self, name: bytes, strings: Any, objects: Any, proto: Any) -> None:  # noqa: ARG002 - amp's
        """Add the text to the box in parts."""
        # An error's text may quote a file name that is not UTF-8, of which Python makes surrogates.
        data = objects[name.decode()].encode(errors="backslashreplace")
        strings[name] = data[:_PART]
        for number, start in enumerate(range(_PART, len(data), _PART), 1):
            strings[b"%s.%d" % (name, number)] = data[start : start + _PART]

    def fromBox(self, name: bytes, strings: Any, objects: Any, proto: Any) -> None:  # noqa: ARG002 - amp's
        """Join the parts of the text."""
        parts = [strings[name]]
        while (part := strings.get(b"%s.%d" % (name, len(parts)))) is not None:
            parts.append(part)
        objects[name.decode()] = b"".join(parts).decode()


class NumberList(amp.Argument):
    """Several numbers, each an argument of its own to the caller, as one value of a box.

    Measured side by side, a command with five of them and a short text takes 5.5 us to write and
    read, 7.6 us with one value for each number, and 12.3 us with `amp.Integer`.

    Args:
        kinds: The numbers in their order, each ``int`` or ``float``.
    """

    def __init__(self, **kinds: type[int] | type[float]) -> None:
        super().__init__()
        self._kinds = list(kinds.items())

    def toBox(self, name: bytes, strings: Any, objects: Any, proto: Any) -> None:  # noqa: ARG002 - amp's
        """Add the numbers to the box."""
        numbers = [repr(kind(objects[argument])) for argument, kind in self._kinds]
        strings[name] = " ".join(numbers).encode()

    def fromBox(self, name: bytes, strings: Any, objects: Any, proto: Any) -> None:  # noqa: ARG002 - amp's
        """Read the numbers.

        Raises:
            ValueError: When the value has other numbers, or not as many.
        """
        for (argument, kind), number in zip(self._kinds, strings[name].split(b" "), strict=True):
            objects[argument] = kind(number)


class CannotImport(Exception):
    """The application cannot be imported."""


class Configure(amp.Command):
    """Master to worker, first command: the settings; answered once the application is imported.

    The settings are a JSON object. They are no arguments of the process, as those are not secret.
    The answer is a JSON object with the fields of `RunVersion`: what the worker runs.
    """

    arguments = [(b"settings", LongText())]
    response = [(b"run", LongText())]
    errors = {CannotImport: b"CANNOT_IMPORT"}


class Perform(amp.Command):
    """Master to worker: run the jobs of an assignment, whose chunk is as the database wrote it.

    `asked_at` is when the claim was sent, by the monotonic clock, which the processes share.
    """

    arguments = [
        (
            b"head",
            NumberList(
                incarnation=int, assignment=int, lane=int, jobs=int, weight=int, asked_at=float
            ),
        ),
        (b"chunk", LongText()),
    ]
    requiresAnswer = False


class RenewLease(amp.Command):
    """Master to worker: start jobs only until the lease expires at `until`, by the monotonic clock.

    A stopped or stuck master cannot report that its lease has expired, so workers get the time in
    advance. The lease does not cover jobs of an earlier run of the node, which must not start.
    """

    arguments = [(b"until", amp.Float()), (b"incarnation", amp.Integer())]
    requiresAnswer = False


class Finish(amp.Command):
    """Worker to master: the numbers of an assignment's done jobs, joined by commas.

    The results are a JSON object by job number, which the master does not parse, or an empty text.
    Committed are the numbers of those that their own transactions have completed.
    """

    arguments = [
        (b"head", NumberList(lane=int, assignment=int, weight=int, jobs=int)),
        (b"ids", LongText()),
        (b"results", LongText()),
        (b"committed", LongText()),
    ]
    requiresAnswer = False


class Settle(amp.Command):
    """Worker to master: jobs that ended otherwise than done, or with progress to store.

    The outcomes are a JSON array of objects with the fields of `SettledJob`, which the master does
    not parse; the counts are a JSON object of the number of these jobs by assignment.
    """

    arguments = [(b"weight", amp.Integer()), (b"counts", LongText()), (b"outcomes", LongText())]
    requiresAnswer = False


class Refuse(amp.Command):
    """Worker to master: an assignment whose jobs do not start, as its chunk does not have them."""

    arguments = [
        (b"head", NumberList(assignment=int, weight=int, jobs=int)),
        (b"reason", amp.Unicode()),
    ]
    requiresAnswer = False


class Start(amp.Command):
    """Worker to master: running jobs, those that run for longer than a second or have new progress.

    The jobs are a JSON array of objects with the fields of `StartedJob`.
    """

    arguments = [(b"jobs", LongText())]
    requiresAnswer = False


class Occupy(amp.Command):
    """Worker to master: the weight of ended jobs whose threads go on, and whether no job can start.

    The jobs are a JSON array of their numbers. A job that timed out keeps its share of the capacity
    until its thread ends.
    """

    arguments = [
        (b"weight", amp.Integer()),
        (b"jobs", LongText()),
        (b"is_stuck", amp.Boolean()),
    ]
    requiresAnswer = False


class Count(amp.Command):
    """Worker to master: what jobs did since the last such report, as `RunTally.take` writes it."""

    arguments = [(b"tally", LongText())]
    requiresAnswer = False


class CancelRunning(amp.Command):
    """Master to worker: end a cancelled or restarted job, if this worker holds it."""

    arguments = [
        (b"assignment", amp.Integer()),
        (b"job_id", amp.Integer()),
        (b"who", amp.Unicode()),
        (b"is_restart", amp.Boolean()),
    ]
    requiresAnswer = False


class GiveBack(amp.Command):
    """Master to worker: give back unstarted jobs: all, or the last ones up to a weight.

    Running jobs continue. The answer has the unstarted jobs, a JSON object of job numbers by
    assignment, and their weight.
    """

    arguments = [(b"most", amp.Integer(optional=True))]
    response = [(b"unstarted", LongText()), (b"weight", amp.Integer())]


class Hold(amp.Command):
    """Master to worker: list the jobs of given assignments that the worker holds, started or not.

    The answer is a JSON object of job numbers by assignment; ended jobs are reported before it.
    """

    arguments = [(b"assignments", LongText())]
    response = [(b"held", LongText())]


class Inspect(amp.Command):
    """Client of an admin endpoint to node: return the node's state as a JSON object."""

    response = [(b"node", LongText())]


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


class NotAPeer(Exception):
    """The sender of the hello is not a live node in the database."""


class Hello(amp.Command):
    """Sent first, by the master that started later: its own name, incarnation and version.

    The answer has the receiver's. Each end checks the name of the other against its certificate,
    and name and incarnation against the database.
    """

    arguments = response = [
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
