"""The AMP commands between a master and its workers, and the command that inspects a node."""

from __future__ import annotations

from twisted.protocols import amp

from txqueue.wire.long_text import LongText
from txqueue.wire.whole_number import WholeNumber

__all__ = [
    "CancelRunning",
    "CannotImport",
    "Configure",
    "Finish",
    "GiveBack",
    "Hold",
    "Inspect",
    "Log",
    "Perform",
    "RenewLease",
    "Settle",
    "Start",
]


class CannotImport(Exception):
    """The application cannot be imported."""


class Configure(amp.Command):
    """Master to worker, first: the settings; answered when the application is imported.

    The settings are a JSON object; as a message, their secrets are not in the process list.
    """

    arguments = [(b"settings", LongText())]
    errors = {CannotImport: b"CANNOT_IMPORT"}


class Perform(amp.Command):
    """Master to worker: an assignment; its chunk is passed on as the database wrote it.

    `asked_at` is a moment of the monotonic clock, which processes share.
    """

    arguments = [
        (b"incarnation", WholeNumber()),
        (b"assignment", WholeNumber()),
        (b"lane", WholeNumber()),
        (b"jobs", WholeNumber()),
        (b"weight", WholeNumber()),
        (b"asked_at", amp.Float()),
        (b"chunk", LongText()),
    ]
    requiresAnswer = False


class RenewLease(amp.Command):
    """Master to worker: start jobs only until a moment of the monotonic clock.

    A stopped or stuck master cannot report that its lease has expired, so workers get its end in
    advance. The lease does not cover jobs of an earlier run of the node, which must not start.
    """

    arguments = [(b"until", amp.Float()), (b"incarnation", amp.Integer())]
    requiresAnswer = False


class Finish(amp.Command):
    """Worker to master: jobs of one assignment that are done, joined by commas.

    The results are a JSON object by number, which the master does not parse, or empty.
    """

    arguments = [
        (b"lane", WholeNumber()),
        (b"assignment", WholeNumber()),
        (b"weight", WholeNumber()),
        (b"jobs", WholeNumber()),
        (b"ids", LongText()),
        (b"results", LongText()),
    ]
    requiresAnswer = False


class Settle(amp.Command):
    """Worker to master: jobs with other outcomes.

    The outcomes are a JSON array of objects with the fields of `SettledJob`, which the master does
    not read; the counts are a JSON object, the number of jobs by assignment.
    """

    arguments = [(b"weight", amp.Integer()), (b"counts", LongText()), (b"outcomes", LongText())]
    requiresAnswer = False


class Start(amp.Command):
    """Worker to master: jobs that run for longer than a beat.

    They are a JSON array of objects with the fields of `StartedJob`.
    """

    arguments = [(b"jobs", LongText())]
    requiresAnswer = False


class Log(amp.Command):
    """Worker to master: a text for the node's log, and whether it is an error or a warning."""

    arguments = [(b"is_grave", amp.Boolean()), (b"text", LongText())]
    requiresAnswer = False


class CancelRunning(amp.Command):
    """Master to worker: end a cancelled job, if this worker holds it."""

    arguments = [
        (b"assignment", amp.Integer()),
        (b"job_id", amp.Integer()),
        (b"who", amp.Unicode()),
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
    """Master to worker: list the held jobs of some assignments, started or not.

    Answered with a JSON object, their numbers by assignment. What has ended was reported before.
    """

    arguments = [(b"assignments", LongText())]
    response = [(b"held", LongText())]


class Inspect(amp.Command):
    """Client of an admin endpoint to node: inspect the node; answered with a JSON object."""

    response = [(b"node", LongText())]
