"""What operators can do: each act with its arguments and its answer, declared once.

The AMP commands, the calls of the stored functions and the handlers of a node follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from attrs import frozen

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
        most: The largest whole number that the stored function takes.
        said: The sentence on the jobs in it, with the arguments of the act in braces.
    """

    name: str
    kind: ValueKind
    parameter: str = ""
    is_optional: bool = False
    most: int = _INTEGER
    said: str = ""


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
    """

    command: str
    takes: tuple[Value, ...]
    gives: tuple[Value, ...]
    said: tuple[str, str] = ("", "")
    states: tuple[str, ...] = ()
    of_all: tuple[str, ...] = ()

    def told(self, subject: str, *, is_changed: object) -> str:
        """Return the sentence about the subject of the act."""
        return f"{subject} {self.said[0 if is_changed else 1]}."


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
_UNENDED = ("waiting", "ready", "assigned")


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
    ),
    # Ends the runs of assigned jobs. Those in `requested` are of groups, and follow when their node
    # has ended their runs. With `is_counted` the runs spend an attempt.
    "restart": Act(
        "RestartJobs",
        (_IDS, Value("is_counted", ValueKind.FLAG, is_optional=True)),
        (
            _runs("restarted", "to run again"),
            _runs("requested", "of a group, to run again once their node has ended their runs"),
            _REFUSED,
        ),
        states=("assigned",),
        of_all=("assigned",),
    ),
    "retry": Act(
        "RetryJobs",
        (_IDS,),
        (_ids("retried", "to run again"), _REFUSED),
        states=("failed", "cancelled", "waiting"),
        of_all=("failed",),
    ),
    # The answer has how many steps are done again.
    "retry_from": Act(
        "RetryFrom",
        (_JOB, Value("step", ValueKind.TEXT, "its_step")),
        (Value("forgotten", ValueKind.WHOLE),),
    ),
    # The answer has the number of the copy, or of the job that holds its unique key.
    "repeat": Act(
        "",
        (_JOB, Value("payload", ValueKind.JSON, "its_payload", is_optional=True)),
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
        (_IDS, Value("priority", ValueKind.WHOLE, "its_priority")),
        (_ids("changed", "of priority {priority} now"), _REFUSED),
        states=("waiting", "ready"),
        of_all=("waiting", "ready"),
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
