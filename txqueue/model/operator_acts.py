"""What operators can do: each act with its arguments, its answer and its words, declared once.

The AMP commands, the calls of the stored functions, the handlers of a node, the commands of
``txqueue`` and the buttons of the dashboard follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from attrs import frozen

from txqueue.model.humanize import counted, moment_ahead
from txqueue.model.storable import check_payload

# The largest numbers of PostgreSQL's types integer and bigint.
_INTEGER: Final = 2**31 - 1
_BIGINT: Final = 2**63 - 1


class ValueKind(Enum):
    """What a value is."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    FLAG = "flag"
    MOMENT = "moment"
    JSON = "document"
    NAMES = "names"
    IDS = "numbers of jobs"
    RUNS = "runs to end: incarnation, assignment and number of the job each"


@frozen
class Value:
    """An argument of an act, or a value of its answer.

    Attributes:
        name: The name, in AMP and in Python.
        kind: What it is.
        parameter: The parameter of the stored function that takes it, if it has another name.
        is_optional: Whether it may be left out.
        option: The option of the command line that gives it.
        most: The largest whole number that the stored function takes.
        said: The sentence on the jobs in it, with the arguments of the act in braces; of an
            argument, its label.
    """

    name: str
    kind: ValueKind
    parameter: str = ""
    is_optional: bool = False
    most: int = _INTEGER
    said: str = ""
    option: str = ""

    def read(self, text: str) -> object:
        """Return the value that a person has typed.

        Raises:
            InvalidWork: When it is no payload.
            ValueError: When it is none; the message says how to write one.
        """
        if self.kind is ValueKind.MOMENT:
            return moment_ahead(text).isoformat()
        if self.kind is ValueKind.JSON:
            return check_payload(text)
        if self.kind is not ValueKind.WHOLE:
            return text
        if text.isdecimal() and len(text) < len(str(_BIGINT)) and int(text) <= self.most:
            return int(text)
        raise ValueError(f"{text!r} is not a whole number from 0 to {self.most}")


@frozen
class Left:
    """Why an act leaves jobs unchanged; ``{}`` stands for the words of a job's explanation.

    Attributes:
        states: The states of the jobs; none for all other states.
        detail: The reason.
        remedy: What would make the act possible, with the number of the job as ``{job_id}``.
    """

    states: tuple[str, ...] = ()
    detail: str = "{}"
    remedy: str = "{}"


@frozen
class Face:
    """How people give an act on jobs.

    Attributes:
        word: The command of ``txqueue``.
        text: Its help, with its examples.
        button: Its button on pages; empty if they have none.
        is_danger: Whether jobs may be lost by it.
    """

    word: str
    text: str
    button: str = ""
    is_danger: bool = False


@frozen
class Act:
    """An act: a stored function of the same name records it with its operator, ``who``.

    Attributes:
        command: The name of the AMP command; empty if another one stands for it, or there is none.
        takes: The arguments.
        gives: The answer: the columns of the function's row.
        said: The sentences on its subject: if the act has changed it, and if not.
        states: The states of jobs that it changes where jobs are given by number, or all in one of
            these states are meant; none if it is not about any jobs.
        of_all: Those that it changes where all jobs that match are meant, in whatever state: an act
            on all neither runs cancelled jobs again nor gives up failed ones unless that is asked.
        only: The condition of SQL of those that it changes then, if not all of these states.
        left: Why it leaves jobs unchanged; the first entry of a job's state counts.
        face: How people give it; none if it is not about any jobs.
    """

    command: str
    takes: tuple[Value, ...]
    gives: tuple[Value, ...]
    said: tuple[str, str] = ("", "")
    states: tuple[str, ...] = ()
    of_all: tuple[str, ...] = ()
    only: str = ""
    left: tuple[Left, ...] = ()
    face: Face | None = None

    @property
    def arguments(self) -> tuple[Value, ...]:
        """What it takes besides the numbers of jobs."""
        return tuple(value for value in self.takes if value.kind is not ValueKind.IDS)

    @property
    def asked(self) -> tuple[Value, ...]:
        """The arguments that pages ask for."""
        return tuple(value for value in self.arguments if not value.is_optional)

    def told(self, subject: str, *, is_changed: object) -> str:
        """Return the sentence about the subject of the act."""
        return f"{subject} {self.said[0 if is_changed else 1]}."


def signed(who: str, why: str | None) -> str:
    """Return what is recorded as the operator of an act: the name, and why if that is said."""
    return f"{who}: {why}" if why else who


def undone_text(number: int, undone: Sequence[int], kept: Mapping[str, int]) -> str:
    """Return the sentence on what an undo has restored: all, a part or nothing."""
    if not undone:
        return f"Act {number} is {'not ' if kept else ''}undone."
    return f"Act {number} is undone; {counted(len(undone), 'job')} as before."


@frozen
class Cancelled:
    """The result of a request to cancel jobs.

    Attributes:
        cancelled: The numbers of the jobs that are cancelled now.
        requested: The numbers of the jobs that a node holds; the node ends them at once or at its
            next heartbeat.
        refused: The numbers of jobs that had ended before or do not exist.
    """

    cancelled: list[int]
    requested: list[int]
    refused: list[int]


def _limit(name: str, kind: ValueKind, most: int = _INTEGER) -> Value:
    return Value(name, kind, f"its_{name}", is_optional=True, most=most)


# Why an act is carried out, which each takes besides; it is recorded with the operator.
WHY = Value("why", ValueKind.TEXT, is_optional=True)
_SUBJECT = (Value("kind", ValueKind.TEXT, "its_kind"), Value("key", ValueKind.TEXT, "its_key"))
_IDS = Value("ids", ValueKind.IDS)
_JOB = Value("job_id", ValueKind.WHOLE, "its_job_id", most=_BIGINT)
_NAME = Value("name", ValueKind.TEXT, "its_name")
_FINGERPRINT = Value("fingerprint", ValueKind.TEXT, "its_fingerprint")
_BEFORE = Value("before", ValueKind.MOMENT, is_optional=True)
_UNTIL = Value("until", ValueKind.MOMENT, "moment", is_optional=True)
_CHANGED = (Value("changed", ValueKind.FLAG),)
_PAUSED = ("is paused", "was paused already")
_RESUMED = ("is resumed", "was not paused")
_REFUSED = Value("refused", ValueKind.IDS, said="left unchanged")
_COUNTED = Value(
    "is_counted",
    ValueKind.FLAG,
    is_optional=True,
    said="Let each ended run spend an attempt; even if it was the last, the job runs once more.",
    option="--count",
)
_UNENDED, _UNCLAIMED = ("waiting", "ready", "assigned"), ("waiting", "ready")
_NOT_RETRIED = (
    Left(("failed", "cancelled")),
    Left(("done",), remedy="to run it once more: txqueue repeat {job_id}"),
    Left(detail="it has not ended: {}"),
)


def _claimed(remedy: str, *more: Left) -> tuple[Left, ...]:
    """Return why an act on unclaimed jobs leaves others unchanged."""
    return Left(("assigned",), "a node has claimed it: {}", remedy), *more, Left(remedy=remedy)


def _ids(name: str, said: str) -> Value:
    return Value(name, ValueKind.IDS, said=said)


def _runs(name: str, said: str) -> Value:
    return Value(name, ValueKind.RUNS, said=said)


ACTS: Final[Mapping[str, Act]] = {
    "pause": Act("Pause", _SUBJECT, _CHANGED, _PAUSED),
    "resume": Act("Resume", _SUBJECT, _CHANGED, _RESUMED),
    # Limits that are not given stay, those in `cleared` are lifted. The answer has the limits that
    # now apply, null if there are none.
    "set_limit": Act(
        "SetLimit",
        (
            *_SUBJECT,
            _limit("concurrency", ValueKind.WHOLE),
            _limit("rate", ValueKind.NUMBER),
            _limit("burst", ValueKind.WHOLE),
            _limit("share", ValueKind.NUMBER),
            _limit("reserve", ValueKind.NUMBER),
            _limit("backlog", ValueKind.WHOLE, _BIGINT),
            Value("cleared", ValueKind.NAMES, is_optional=True),
        ),
        (Value("control", ValueKind.JSON),),
    ),
    # Unclaimed jobs end at once, others as soon as their node ends them; failed ones become
    # cancelled.
    "cancel": Act(
        "CancelJobs",
        (_IDS,),
        (_ids("cancelled", "cancelled"), _runs("requested", "told to stop"), _REFUSED),
        states=(*_UNENDED, "failed"),
        of_all=_UNENDED,
        left=(Left(remedy="nothing: it has ended"),),
        face=Face(
            "cancel",
            """End jobs, even running ones; give up failed ones.

            Waiting ones end at once, running ones when their node receives the request: a coroutine
            is interrupted; a function in a thread must check job.is_cancelled. Failed jobs given by
            number, or chosen by --state failed, become cancelled.

            Examples:
                cancel 17 18
                cancel --all --queue mail
            """,
            "Cancel",
            is_danger=True,
        ),
    ),
    # Ends the runs of assigned jobs. Those in `requested` are of groups, and follow when their node
    # has ended their runs. With `is_counted` the runs spend an attempt.
    "restart": Act(
        "RestartJobs",
        (_IDS, _COUNTED),
        (
            _runs("restarted", "to run again"),
            _runs("requested", "of a group, to run again once their node has ended their runs"),
            _REFUSED,
        ),
        states=("assigned",),
        of_all=("assigned",),
        left=(
            Left(
                ("assigned",),
                "an open transaction has locked its row, perhaps as it ends",
                "once that has ended, if it still runs: txqueue restart {job_id}",
            ),
            Left(_UNCLAIMED, "it does not run: {}"),
            *_NOT_RETRIED,
        ),
        face=Face(
            "restart",
            """End runs, such as hung ones, and run their jobs again.

            The jobs run again at once. What the ended runs still write in their own transactions is
            refused. A coroutine is interrupted; a function in a thread is left behind, and keeps
            its weight until it returns; a worker that a handler blocks is killed and replaced.

            Examples:
                restart 17
                restart --all --running-for 1h --type shop.SendReceipt
            """,
            "Restart",
        ),
    ),
    "retry": Act(
        "RetryJobs",
        (_IDS,),
        (_ids("retried", "to run again"), _REFUSED),
        states=("failed", "cancelled", "waiting"),
        of_all=("failed",),
        # Of those that wait, it starts none before its time but for a retry.
        only="(job.state <> 'waiting' or job.waiting_for = 'time' and job.attempt > 0)",
        left=_NOT_RETRIED,
        face=Face(
            "retry",
            """Run failed or cancelled jobs again.

            Jobs given by number that wait for a time or a retry run now. One that sleeps at a step
            starts, finds that its sleep is not over, and sleeps on until the same moment.

            Examples:
                retry 17 --from charge
                retry --all --type shop.Mail
            """,
            "Retry",
        ),
    ),
    # The answer has how many steps are done again.
    "retry_from": Act(
        "RetryFrom",
        (_JOB, Value("step", ValueKind.TEXT, "its_step")),
        (Value("forgotten", ValueKind.WHOLE),),
    ),
    # The answer has the number of the copy, or of the job that holds its unique key.
    "repeat": Act(
        "RepeatJob",
        (_JOB, Value("payload", ValueKind.JSON, "its_payload", is_optional=True)),
        (Value("job_id", ValueKind.WHOLE),),
    ),
    # The answer has the number of the new job, or of the one that holds its unique key.
    "enqueue_by_operator": Act(
        "",
        (
            Value("work_type", ValueKind.TEXT, "its_work_type"),
            Value("payload", ValueKind.JSON, "its_payload"),
        ),
        (Value("job_id", ValueKind.WHOLE),),
    ),
    # Of the same name and key only the first is new.
    "send_signal": Act(
        "SendSignal",
        (
            _JOB,
            _NAME,
            Value("value", ValueKind.JSON, "its_value", is_optional=True),
            Value("key", ValueKind.TEXT, "its_key", is_optional=True),
        ),
        (Value("is_new", ValueKind.FLAG),),
    ),
    "set_priority": Act(
        "SetPriority",
        (_IDS, Value("priority", ValueKind.WHOLE, "its_priority", most=9, said="Priority")),
        (_ids("changed", "of priority {priority} now"), _REFUSED),
        states=_UNCLAIMED,
        of_all=_UNCLAIMED,
        left=_claimed("nothing: a priority only decides when a job is claimed"),
        face=Face(
            "priority",
            """Give jobs another priority.

            PRIORITY is 0 to 9; higher runs first. It changes for jobs that no node has claimed.

            Examples:
                priority 9 17 18
                priority 2 --all --queue mail
            """,
        ),
    ),
    "move": Act(
        "MoveJobs",
        (_IDS, Value("to", ValueKind.TEXT, "its_queue", said="Queue")),
        (_ids("changed", "in the queue {to} now"), _REFUSED),
        states=_UNCLAIMED,
        of_all=_UNCLAIMED,
        left=_claimed("nothing: a queue only decides which node claims a job"),
        face=Face(
            "move",
            """Move jobs to another queue.

            It moves jobs that no node has claimed. To put them back: txqueue undo.

            Examples:
                move bulk 17 18
                move bulk --all --queue mail --type shop.Newsletter
            """,
            "Move",
        ),
    ),
    "reschedule": Act(
        "RescheduleJobs",
        (_IDS, Value("to", ValueKind.MOMENT, "its_moment", said="When")),
        (_ids("changed", "not to start before {to}"), _REFUSED),
        states=_UNCLAIMED,
        of_all=_UNCLAIMED,
        left=_claimed(
            "to run it once more: txqueue repeat {job_id}",
            Left(_UNCLAIMED, "it waits at a step, or its not_after is not later: {}"),
        ),
        face=Face(
            "reschedule",
            """Run jobs at another time, or now.

            WHEN is now, a length of time from now, such as 2h, or a moment, such as
            2026-11-22T13:00Z. A job that waits for others or for its group still does.

            Examples:
                reschedule now 17 18
                reschedule 2h --all --queue mail
            """,
            "Reschedule",
        ),
    ),
    "edit": Act(
        "EditJobs",
        (_IDS, Value("to", ValueKind.JSON, "its_payload", said="JSON")),
        (_ids("changed", "with another payload now"), _REFUSED),
        states=_UNCLAIMED,
        of_all=_UNCLAIMED,
        left=_claimed("once it has ended: txqueue repeat {job_id} --payload JSON"),
        face=Face(
            "edit",
            """Give jobs another payload.

            JSON is the whole new payload, an object. It must fit the schema of the work type, if a
            node has published one. The jobs keep the group, tenant and unique key that they have.

            Examples:
                edit '{"user_id": 8}' 17
            """,
        ),
    ),
    # Jobs that have not ended are cancelled first.
    "delete_jobs": Act(
        "DeleteJobs",
        (_IDS,),
        (_ids("deleted", "deleted"), _REFUSED),
        states=(*_UNCLAIMED, "done", "failed", "cancelled"),
        of_all=_UNCLAIMED,
        left=(
            Left(
                ("assigned",),
                "a node has claimed it: {}",
                "cancel it first: txqueue cancel {job_id}",
            ),
            Left(),
        ),
        face=Face(
            "delete",
            """Delete jobs, with their payloads, steps and signals.

            There is no undo. Jobs that wait for a deleted one are cancelled. Without --state it
            deletes jobs that no node has claimed.

            Examples:
                delete 17 18
                delete --all --state failed --type shop.Mail
            """,
            "Delete",
            is_danger=True,
        ),
    ),
    # The answer has how many jobs are not as before, by reason.
    "undo": Act(
        "UndoAct",
        (Value("number", ValueKind.WHOLE, "its_act", most=_BIGINT),),
        (_ids("undone", "as before"), Value("kept", ValueKind.JSON)),
    ),
    # These act on a limited number of jobs a call. The answer has how many, 0 after the last, and
    # the `before` or `until` of the next call.
    "retry_failures": Act(
        "RetryFailures", (_FINGERPRINT, _BEFORE), (Value("retried", ValueKind.WHOLE), _BEFORE)
    ),
    "discard_failures": Act(
        "DiscardFailures", (_FINGERPRINT, _BEFORE), (Value("discarded", ValueKind.WHOLE), _BEFORE)
    ),
    "postpone_failures": Act(
        "PostponeFailures",
        (_FINGERPRINT, Value("delay", ValueKind.NUMBER), _UNTIL),
        (Value("postponed", ValueKind.WHOLE), _UNTIL),
    ),
    # Of a type that the deploy guard holds.
    "release_type": Act(
        "ReleaseType",
        (Value("work_type", ValueKind.TEXT, "its_work_type"),),
        _CHANGED,
        ("is released", "was not held"),
    ),
    # Replaces the times of a schedule by those of an object, as `put_schedule()` takes it.
    "edit_schedule": Act(
        "EditSchedule",
        (_NAME, Value("terms", ValueKind.JSON)),
        _CHANGED,
        ("has new times", "had these times before"),
    ),
    "pause_schedule": Act("", (_NAME,), _CHANGED, _PAUSED),
    "resume_schedule": Act("", (_NAME,), _CHANGED, _RESUMED),
    "remove_schedule": Act("", (_NAME,), (), ("is removed", "is removed")),
    "run_schedule": Act("", (_NAME,), (Value("job_id", ValueKind.WHOLE),)),
    "drain_node": Act(
        "DrainNode",
        (_NAME,),
        _CHANGED,
        ("is draining; undrain or restart it to accept jobs again", "was draining already"),
    ),
    "undrain_node": Act(
        "UndrainNode", (_NAME,), _CHANGED, ("accepts jobs again", "was not draining")
    ),
}
"""The acts by the names of their stored functions."""

WORDS: Final[Mapping[str, str]] = {
    act.face.word: name for name, act in ACTS.items() if act.face is not None
}
"""The acts on jobs by their commands."""
