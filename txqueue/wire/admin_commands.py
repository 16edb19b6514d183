"""The AMP commands for operators; any node answers for the whole cluster.

Documents are JSON texts. A list comes in pages of up to 60,000 bytes: ``next`` is the ``after`` of
the next page, and empty after the last. A text longer than 65,000 bytes, such as a job with a large
payload, continues in values named ``job.1``, ``job.2`` and so on. Job numbers are joined by commas.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from twisted.protocols import amp

from txqueue.errors import AdminRefused
from txqueue.wire.long_text import LongText

__all__ = [
    "ActOnSchedule",
    "CancelJobs",
    "DiscardFailures",
    "DrainNode",
    "EditSchedule",
    "Explain",
    "GetHealth",
    "GetJob",
    "GetQueue",
    "GetStatus",
    "ListActions",
    "ListControls",
    "ListFailures",
    "ListJobs",
    "ListNodes",
    "ListQueues",
    "Pause",
    "PostponeFailures",
    "RestartJobs",
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
    """The base class of the commands for operators; a refusal is answered with a line of text."""

    errors = {AdminRefused: b"REFUSED"}

    @classmethod
    def parseArguments(cls, box: Any, protocol: Any) -> dict[str, Any]:
        """Return the arguments of a message.

        Raises:
            AdminRefused: When one is missing or not of its kind; any other error would end the
                connection.
        """
        try:
            return cast("dict[str, Any]", super().parseArguments(box, protocol))
        except Exception as error:
            raise AdminRefused(
                f"an argument of {cls.__name__} is missing or not of its kind:"
                f" {ascii(str(error))[:200]}",
                "see the reference of the commands for operators",
            ) from None


class ListNodes(_Command):
    """List the nodes with host, load and start; the row of the answering node has its workers."""

    arguments = [_AFTER]
    response = [(b"nodes", LongText()), _NEXT]


class ListQueues(_Command):
    """List the queues with depth by state, age of the oldest ready job and rate of completions."""

    arguments = [_AFTER]
    response = [(b"queues", LongText()), _NEXT]


class GetStatus(_Command):
    """Return the queues, the nodes and the warnings in one object."""

    response = [(b"status", LongText())]


class GetHealth(_Command):
    """Return whether the answering node is live and ready, and why, without a query."""

    response = [(b"health", LongText())]


class GetQueue(_Command):
    """Return which queue the node serves: its identity, and its database for people."""

    response = [(b"identity", amp.Unicode()), (b"place", amp.Unicode())]


class ListJobs(_Command):
    """List jobs without payloads, the newest first; ``at`` is the time by the database's clock.

    With ``tag``, ``payload``, ``error`` or a time a page ends after a limited number of jobs was
    looked at: ``searched`` has it, or 0 if the page ends for another reason. ``obeyed``
    names those of the given filters that older nodes ignore.
    """

    newer: ClassVar[frozenset[str]] = frozenset({"node", "fingerprint"})
    arguments = [
        (b"state", _may(amp.Unicode)),
        (b"queue", _may(amp.Unicode)),
        (b"work_type", _may(amp.Unicode)),
        (b"group", _may(amp.Unicode)),
        (b"tenant", _may(amp.Unicode)),
        (b"node", _may(amp.Unicode)),
        (b"fingerprint", _may(amp.Unicode)),
        (b"running_for", _may(amp.Float)),
        (b"tag", amp.ListOf(amp.Unicode(), optional=True)),
        (b"payload", amp.ListOf(amp.Unicode(), optional=True)),
        (b"error", _may(amp.Unicode)),
        (b"since", _may(amp.Unicode)),
        (b"until", _may(amp.Unicode)),
        (b"updated_since", _may(amp.Unicode)),
        _AFTER,
        (b"limit", _may(amp.Integer)),
    ]
    response = [
        (b"jobs", LongText()),
        _NEXT,
        (b"at", amp.Unicode()),
        (b"searched", _may(amp.Integer)),
        (b"obeyed", _may(amp.Unicode)),
    ]


class GetJob(_Command):
    """Return what is stored about a job, such as its attempts, last error and operators' acts."""

    arguments = [(b"job_id", amp.Integer())]
    response = [(b"job", LongText())]


class Explain(_Command):
    """Explain why a job does not run, and what would make it run."""

    arguments = [(b"job_id", amp.Integer())]
    response = [(b"explanation", LongText())]


class ListControls(_Command):
    """List pauses and limits."""

    arguments = [_AFTER]
    response = [(b"controls", LongText()), _NEXT]


class ListActions(_Command):
    """List the acts of operators, the latest first: all acts, or only those on one subject."""

    arguments = [(b"subject", _may(amp.Unicode)), _AFTER]
    response = [(b"actions", LongText()), _NEXT]


class Pause(_Command):
    """Pause a ``queue``, a ``group`` or a ``tenant`` until it is resumed."""

    arguments = _KEY
    response = _CHANGED


class Resume(_Command):
    """Resume a paused ``queue``, ``group`` or ``tenant``."""

    arguments = _KEY
    response = _CHANGED


class SetLimit(_Command):
    """Limit a queue, a group or a tenant; limits not given stay, those in ``cleared`` are lifted.

    The answer has the limits that now apply, ``null`` if there are none.
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
    """Cancel jobs: unclaimed ones end at once, others as soon as their node ends them.

    Jobs in ``refused`` had already ended; failed jobs become cancelled.
    """

    arguments = [(b"ids", amp.Unicode())]
    response = [
        (b"cancelled", amp.Unicode()),
        (b"requested", amp.Unicode()),
        (b"refused", amp.Unicode()),
    ]


class RestartJobs(_Command):
    """End the runs of assigned jobs, such as hung ones, and run the jobs again.

    Those in ``restarted`` are in the queue again; those in ``requested`` are of groups, and follow
    when their node has ended their runs. With ``is_counted`` the runs spend an attempt.
    """

    arguments = [(b"ids", amp.Unicode()), (b"is_counted", _may(amp.Boolean))]
    response = [
        (b"restarted", amp.Unicode()),
        (b"requested", amp.Unicode()),
        (b"refused", amp.Unicode()),
    ]


class RetryJobs(_Command):
    """Retry failed and cancelled jobs, and run at once the jobs that wait for a retry."""

    arguments = [(b"ids", amp.Unicode())]
    response = [(b"retried", amp.Unicode()), (b"refused", amp.Unicode())]


class ListFailures(_Command):
    """List the kinds of failure by work type, with the number of jobs, dates and an example."""

    arguments = [_AFTER]
    response = [(b"failures", LongText()), _NEXT]


class RetryFailures(_Command):
    """Retry jobs of one kind of failure that failed before a given time, a limited number a call.

    The answer has how many jobs were retried, 0 after the last, and the ``before`` of the next
    call.
    """

    arguments = [(b"fingerprint", amp.Unicode()), (b"before", _may(amp.Unicode))]
    response = [(b"retried", amp.Integer()), (b"before", amp.Unicode())]


class DiscardFailures(_Command):
    """Turn failed jobs of one kind of failure into cancelled ones, a limited number a call.

    The answer has how many jobs were discarded, 0 after the last, and the ``before`` of the next
    call.
    """

    arguments = [(b"fingerprint", amp.Unicode()), (b"before", _may(amp.Unicode))]
    response = [(b"discarded", amp.Integer()), (b"before", amp.Unicode())]


class PostponeFailures(_Command):
    """Retry jobs of one kind of failure after a delay in seconds, a limited number a call.

    The answer has how many jobs were postponed, 0 after the last, and the ``until`` of the next
    call.
    """

    arguments = [
        (b"fingerprint", amp.Unicode()),
        (b"delay", amp.Float()),
        (b"until", _may(amp.Unicode)),
    ]
    response = [(b"postponed", amp.Integer()), (b"until", amp.Unicode())]


class ActOnSchedule(_Command):
    """Pause, resume, remove or run a schedule; the answer has the number of the new job, or 0."""

    arguments = [(b"name", amp.Unicode()), (b"act", amp.Unicode())]
    response = [(b"changed", amp.Boolean()), (b"job_id", amp.Integer())]


class EditSchedule(_Command):
    """Replace the times of a schedule by those of a JSON object, as ``put_schedule()`` takes it."""

    arguments = [(b"name", amp.Unicode()), (b"terms", amp.Unicode())]
    response = _CHANGED


class SetPriority(_Command):
    """Change the priority of unclaimed jobs."""

    arguments = [(b"ids", amp.Unicode()), (b"priority", amp.Integer())]
    response = [(b"changed", amp.Unicode()), (b"refused", amp.Unicode())]


class DrainNode(_Command):
    """Drain a node: it accepts no more jobs and passes on unstarted ones."""

    arguments = [(b"name", amp.Unicode())]
    response = _CHANGED


class UndrainNode(_Command):
    """Let a draining node accept jobs again."""

    arguments = [(b"name", amp.Unicode())]
    response = _CHANGED
