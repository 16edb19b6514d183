"""What a master and its worker processes say to each other, and what anyone may ask a node."""

from __future__ import annotations

from twisted.protocols import amp

from txqueue.wire.long_text import LongText

__all__ = [
    "CancelRunning",
    "CannotImport",
    "Configure",
    "Finish",
    "GiveBack",
    "Hold",
    "Inspect",
    "Lease",
    "Log",
    "Perform",
    "Settle",
    "Start",
]


class CannotImport(Exception):
    """The application cannot be imported."""


class Configure(amp.Command):
    """Master to worker, first: what to import and how much to run. Answered when all is imported.

    The settings are a JSON object, so that no secret of them stands in the process list.
    """

    arguments = [(b"settings", LongText())]
    errors = {CannotImport: b"CANNOT_IMPORT"}


class Perform(amp.Command):
    """Master to worker: an assignment; its chunk is passed on as the database wrote it.

    It was asked for at a moment of the monotonic clock, which processes share.
    """

    arguments = [
        (b"incarnation", amp.Integer()),
        (b"assignment", amp.Integer()),
        (b"lane", amp.Integer()),
        (b"jobs", amp.Integer()),
        (b"weight", amp.Integer()),
        (b"asked_at", amp.Float()),
        (b"chunk", LongText()),
    ]
    requiresAnswer = False


class Lease(amp.Command):
    """Master to worker: start jobs only until a moment of the monotonic clock.

    A master that is stopped or stuck cannot say that its lease has expired: its workers must
    know. Jobs assigned to a former run of the node are not this lease's, and must not start.
    """

    arguments = [(b"until", amp.Float()), (b"incarnation", amp.Integer())]
    requiresAnswer = False


class Finish(amp.Command):
    """Worker to master: jobs of one assignment that returned nothing, numbers joined by commas."""

    arguments = [
        (b"lane", amp.Integer()),
        (b"assignment", amp.Integer()),
        (b"weight", amp.Integer()),
        (b"jobs", amp.Integer()),
        (b"ids", LongText()),
    ]
    requiresAnswer = False


class Settle(amp.Command):
    """Worker to master: jobs that ended otherwise.

    The outcomes are a JSON array of what ``settle()`` takes, which the master does not read; the
    counts are a JSON object, the number of jobs by assignment.
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
    """Master to worker: start nothing of what you hold, or not the last of it up to a weight.

    Running jobs go on. Answered with what it had not started, a JSON object of numbers of jobs by
    assignment, and its weight.
    """

    arguments = [(b"most", amp.Integer(optional=True))]
    response = [(b"unstarted", LongText()), (b"weight", amp.Integer())]


class Hold(amp.Command):
    """Master to worker: which jobs of some assignments do you hold, started or not?

    Answered with a JSON object, their numbers by assignment. What has ended was reported before.
    """

    arguments = [(b"assignments", LongText())]
    response = [(b"held", LongText())]


class Inspect(amp.Command):
    """Any client of a node's admin endpoint: ask how the node is. Answered with a JSON object."""

    response = [(b"node", LongText())]
