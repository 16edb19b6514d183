"""What an operator may ask of a node, and have it do; any node answers for the whole cluster.

Documents are JSON texts. A list comes in pages of up to 60,000 bytes: ``next`` is what to pass as
``after`` for the next one, and empty after the last. A text that is longer than 65,000 bytes all
the same, such as a job with a large payload, goes on in values named ``job.1``, ``job.2`` and so
on. Numbers of jobs are joined by commas.
"""

from __future__ import annotations

from twisted.protocols import amp

from txqueue.errors import AdminRefused
from txqueue.wire.long_text import LongText

__all__ = [
    "ActOnSchedule",
    "CancelJobs",
    "DiscardFailures",
    "DrainNode",
    "Explain",
    "GetJob",
    "GetStatus",
    "ListActions",
    "ListControls",
    "ListFailures",
    "ListJobs",
    "ListNodes",
    "ListQueues",
    "Pause",
    "PostponeFailures",
    "Resume",
    "RetryFailures",
    "RetryJobs",
    "SetLimit",
    "SetPriority",
    "UndrainNode",
]

_REFUSED: dict[type[Exception], bytes] = {AdminRefused: b"REFUSED"}


def _may(kind: type[amp.Argument]) -> amp.Argument:
    return kind(optional=True)


class ListNodes(amp.Command):
    """List the nodes: host, load, start; the node that answers lists its workers too."""

    arguments = [(b"after", _may(amp.Unicode))]
    response = [(b"nodes", LongText()), (b"next", amp.Unicode())]
    errors = _REFUSED


class ListQueues(amp.Command):
    """Each queue's depth by state, the age of its oldest ready job, and what it completes."""

    arguments = [(b"after", _may(amp.Unicode))]
    response = [(b"queues", LongText()), (b"next", amp.Unicode())]
    errors = _REFUSED


class GetStatus(amp.Command):
    """The queues, the nodes and what is wrong, in one object."""

    arguments = []
    response = [(b"status", LongText())]
    errors = _REFUSED


class ListJobs(amp.Command):
    """Jobs, the newest first, without their payloads; ``at`` is the database's clock."""

    arguments = [
        (b"state", _may(amp.Unicode)),
        (b"queue", _may(amp.Unicode)),
        (b"work_type", _may(amp.Unicode)),
        (b"group", _may(amp.Unicode)),
        (b"tenant", _may(amp.Unicode)),
        (b"running_for", _may(amp.Float)),
        (b"after", _may(amp.Unicode)),
        (b"limit", _may(amp.Integer)),
    ]
    response = [(b"jobs", LongText()), (b"next", amp.Unicode()), (b"at", amp.Unicode())]
    errors = _REFUSED


class GetJob(amp.Command):
    """All there is of one job: its attempts, its last error, and what was done to it by hand."""

    arguments = [(b"job_id", amp.Integer())]
    response = [(b"job", LongText())]
    errors = _REFUSED


class Explain(amp.Command):
    """Why a job does not run, and what would make it."""

    arguments = [(b"job_id", amp.Integer())]
    response = [(b"explanation", LongText())]
    errors = _REFUSED


class ListControls(amp.Command):
    """What is paused or limited."""

    arguments = [(b"after", _may(amp.Unicode))]
    response = [(b"controls", LongText()), (b"next", amp.Unicode())]
    errors = _REFUSED


class ListActions(amp.Command):
    """List operators' acts, the latest first; all, or only those on one subject."""

    arguments = [(b"subject", _may(amp.Unicode)), (b"after", _may(amp.Unicode))]
    response = [(b"actions", LongText()), (b"next", amp.Unicode())]
    errors = _REFUSED


class Pause(amp.Command):
    """Start no job of a ``queue``, a ``group`` or a ``tenant`` until it is resumed."""

    arguments = [(b"kind", amp.Unicode()), (b"key", amp.Unicode())]
    response = [(b"changed", amp.Boolean())]
    errors = _REFUSED


class Resume(amp.Command):
    """Start jobs of a paused ``queue``, ``group`` or ``tenant`` again."""

    arguments = [(b"kind", amp.Unicode()), (b"key", amp.Unicode())]
    response = [(b"changed", amp.Boolean())]
    errors = _REFUSED


class SetLimit(amp.Command):
    """Limit a queue, a group or a tenant; what is not given stays, names in ``cleared`` go.

    Answered with the control as it is then, ``null`` if nothing is limited any more.
    """

    arguments = [
        (b"kind", amp.Unicode()),
        (b"key", amp.Unicode()),
        (b"concurrency", _may(amp.Integer)),
        (b"rate", _may(amp.Float)),
        (b"burst", _may(amp.Integer)),
        (b"share", _may(amp.Float)),
        (b"reserve", _may(amp.Float)),
        (b"backlog", _may(amp.Integer)),
        (b"cleared", _may(amp.Unicode)),
    ]
    response = [(b"control", LongText())]
    errors = _REFUSED


class CancelJobs(amp.Command):
    """End jobs: at once what no node has taken, soon what one has; failed ones are discarded.

    The others have ended.
    """

    arguments = [(b"ids", amp.Unicode())]
    response = [
        (b"cancelled", amp.Unicode()),
        (b"requested", amp.Unicode()),
        (b"refused", amp.Unicode()),
    ]
    errors = _REFUSED


class RetryJobs(amp.Command):
    """Run failed and cancelled jobs anew, and those that wait for an attempt now."""

    arguments = [(b"ids", amp.Unicode())]
    response = [(b"retried", amp.Unicode()), (b"refused", amp.Unicode())]
    errors = _REFUSED


class ListFailures(amp.Command):
    """The kinds of failure that there are, by work type: how many jobs, since when, an example."""

    arguments = [(b"after", _may(amp.Unicode))]
    response = [(b"failures", LongText()), (b"next", amp.Unicode())]
    errors = _REFUSED


class RetryFailures(amp.Command):
    """Run jobs again that failed in one way before a moment, some at a time.

    Answered with how many, 0 after the last, and with the moment: pass it to go on.
    """

    arguments = [(b"fingerprint", amp.Unicode()), (b"before", _may(amp.Unicode))]
    response = [(b"retried", amp.Integer()), (b"before", amp.Unicode())]
    errors = _REFUSED


class DiscardFailures(amp.Command):
    """Have jobs that failed for good in one way before a moment count as cancelled.

    Some at a time; answered with how many, 0 after the last, and the moment: pass it to go on.
    """

    arguments = [(b"fingerprint", amp.Unicode()), (b"before", _may(amp.Unicode))]
    response = [(b"discarded", amp.Integer()), (b"before", amp.Unicode())]
    errors = _REFUSED


class PostponeFailures(amp.Command):
    """Run jobs that failed in one way again, but not before so many seconds, some at a time.

    Answered with how many, 0 after the last, and with the moment: pass it to go on.
    """

    arguments = [
        (b"fingerprint", amp.Unicode()),
        (b"delay", amp.Float()),
        (b"until", _may(amp.Unicode)),
    ]
    response = [(b"postponed", amp.Integer()), (b"until", amp.Unicode())]
    errors = _REFUSED


class ActOnSchedule(amp.Command):
    """Pause, resume, remove or run a schedule now; answered with the job that is enqueued, or 0."""

    arguments = [(b"name", amp.Unicode()), (b"act", amp.Unicode())]
    response = [(b"changed", amp.Boolean()), (b"job_id", amp.Integer())]
    errors = _REFUSED


class SetPriority(amp.Command):
    """Give jobs that no node has taken yet another priority."""

    arguments = [(b"ids", amp.Unicode()), (b"priority", amp.Integer())]
    response = [(b"changed", amp.Unicode()), (b"refused", amp.Unicode())]
    errors = _REFUSED


class DrainNode(amp.Command):
    """Have a node take nothing more, and pass on what it has not started."""

    arguments = [(b"name", amp.Unicode())]
    response = [(b"changed", amp.Boolean())]
    errors = _REFUSED


class UndrainNode(amp.Command):
    """Have a draining node take jobs again."""

    arguments = [(b"name", amp.Unicode())]
    response = [(b"changed", amp.Boolean())]
    errors = _REFUSED
