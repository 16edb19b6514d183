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


def _may(kind: type[amp.Argument]) -> amp.Argument:
    return kind(optional=True)


_KEY: list[tuple[bytes, amp.Argument]] = [(b"kind", amp.Unicode()), (b"key", amp.Unicode())]
_AFTER, _NEXT = (b"after", _may(amp.Unicode)), (b"next", amp.Unicode())
_CHANGED: list[tuple[bytes, amp.Argument]] = [(b"changed", amp.Boolean())]


class _Command(amp.Command):
    """A command that answers every error with one line."""

    errors = {AdminRefused: b"REFUSED"}


class ListNodes(_Command):
    """List the nodes: host, load, start; the node that answers lists its workers too."""

    arguments = [_AFTER]
    response = [(b"nodes", LongText()), _NEXT]


class ListQueues(_Command):
    """Each queue's depth by state, the age of its oldest ready job, and what it completes."""

    arguments = [_AFTER]
    response = [(b"queues", LongText()), _NEXT]


class GetStatus(_Command):
    """The queues, the nodes and what is wrong, in one object."""

    response = [(b"status", LongText())]


class ListJobs(_Command):
    """Jobs, the newest first, without their payloads; ``at`` is the database's clock."""

    arguments = [
        (b"state", _may(amp.Unicode)),
        (b"queue", _may(amp.Unicode)),
        (b"work_type", _may(amp.Unicode)),
        (b"group", _may(amp.Unicode)),
        (b"tenant", _may(amp.Unicode)),
        (b"running_for", _may(amp.Float)),
        _AFTER,
        (b"limit", _may(amp.Integer)),
    ]
    response = [(b"jobs", LongText()), _NEXT, (b"at", amp.Unicode())]


class GetJob(_Command):
    """All there is of one job: its attempts, its last error, and what was done to it by hand."""

    arguments = [(b"job_id", amp.Integer())]
    response = [(b"job", LongText())]


class Explain(_Command):
    """Why a job does not run, and what would make it."""

    arguments = [(b"job_id", amp.Integer())]
    response = [(b"explanation", LongText())]


class ListControls(_Command):
    """What is paused or limited."""

    arguments = [_AFTER]
    response = [(b"controls", LongText()), _NEXT]


class ListActions(_Command):
    """List operators' acts, the latest first; all, or only those on one subject."""

    arguments = [(b"subject", _may(amp.Unicode)), _AFTER]
    response = [(b"actions", LongText()), _NEXT]


class Pause(_Command):
    """Start no job of a ``queue``, a ``group`` or a ``tenant`` until it is resumed."""

    arguments = _KEY
    response = _CHANGED


class Resume(_Command):
    """Start jobs of a paused ``queue``, ``group`` or ``tenant`` again."""

    arguments = _KEY
    response = _CHANGED


class SetLimit(_Command):
    """Limit a queue, a group or a tenant; what is not given stays, names in ``cleared`` go.

    Answered with the control as it is then, ``null`` if nothing is limited any more.
    """

    arguments = [
        *_KEY,
        (b"concurrency", _may(amp.Integer)),
        (b"rate", _may(amp.Float)),
        (b"burst", _may(amp.Integer)),
        (b"share", _may(amp.Float)),
        (b"reserve", _may(amp.Float)),
        (b"backlog", _may(amp.Integer)),
        (b"cleared", _may(amp.Unicode)),
    ]
    response = [(b"control", LongText())]


class CancelJobs(_Command):
    """End jobs: at once what no node has taken, soon what one has; failed ones are discarded.

    The others have ended.
    """

    arguments = [(b"ids", amp.Unicode())]
    response = [
        (b"cancelled", amp.Unicode()),
        (b"requested", amp.Unicode()),
        (b"refused", amp.Unicode()),
    ]


class RetryJobs(_Command):
    """Run failed and cancelled jobs anew, and those that wait for an attempt now."""

    arguments = [(b"ids", amp.Unicode())]
    response = [(b"retried", amp.Unicode()), (b"refused", amp.Unicode())]


class ListFailures(_Command):
    """The kinds of failure that there are, by work type: how many jobs, since when, an example."""

    arguments = [_AFTER]
    response = [(b"failures", LongText()), _NEXT]


class RetryFailures(_Command):
    """Run jobs again that failed in one way before a moment, some at a time.

    Answered with how many, 0 after the last, and with the moment: pass it to go on.
    """

    arguments = [(b"fingerprint", amp.Unicode()), (b"before", _may(amp.Unicode))]
    response = [(b"retried", amp.Integer()), (b"before", amp.Unicode())]


class DiscardFailures(_Command):
    """Have jobs that failed for good in one way before a moment count as cancelled.

    Some at a time; answered with how many, 0 after the last, and the moment: pass it to go on.
    """

    arguments = [(b"fingerprint", amp.Unicode()), (b"before", _may(amp.Unicode))]
    response = [(b"discarded", amp.Integer()), (b"before", amp.Unicode())]


class PostponeFailures(_Command):
    """Run jobs that failed in one way again, but not before so many seconds, some at a time.

    Answered with how many, 0 after the last, and with the moment: pass it to go on.
    """

    arguments = [
        (b"fingerprint", amp.Unicode()),
        (b"delay", amp.Float()),
        (b"until", _may(amp.Unicode)),
    ]
    response = [(b"postponed", amp.Integer()), (b"until", amp.Unicode())]


class ActOnSchedule(_Command):
    """Pause, resume, remove or run a schedule now; answered with the job that is enqueued, or 0."""

    arguments = [(b"name", amp.Unicode()), (b"act", amp.Unicode())]
    response = [(b"changed", amp.Boolean()), (b"job_id", amp.Integer())]


class SetPriority(_Command):
    """Give jobs that no node has taken yet another priority."""

    arguments = [(b"ids", amp.Unicode()), (b"priority", amp.Integer())]
    response = [(b"changed", amp.Unicode()), (b"refused", amp.Unicode())]


class DrainNode(_Command):
    """Have a node take nothing more, and pass on what it has not started."""

    arguments = [(b"name", amp.Unicode())]
    response = _CHANGED


class UndrainNode(_Command):
    """Have a draining node take jobs again."""

    arguments = [(b"name", amp.Unicode())]
    response = _CHANGED
