"""The AMP commands between a master and its workers, and the command that inspects a node."""

from __future__ import annotations

from twisted.protocols import amp

from txqueue.wire.arguments import LongText, NumberList

__all__ = [
    "CancelRunning",
    "CannotImport",
    "Configure",
    "Count",
    "Finish",
    "GiveBack",
    "Hold",
    "Inspect",
    "Occupy",
    "Perform",
    "Refuse",
    "RenewLease",
    "Settle",
    "Start",
]


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
