"""What operators can do: each act with its arguments and its answer, declared once.

The AMP commands, the calls of the stored functions and the handlers of a node follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from attrs import frozen

__all__ = ["ACTS", "Act", "Kind", "Value"]


class Kind(Enum):
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
    """

    name: str
    kind: Kind
    parameter: str = ""
    is_optional: bool = False


@frozen
class Act:
    """An act: a stored function of the same name records it with its operator, ``who``.

    Attributes:
        takes: The arguments.
        gives: The answer: the columns of the function's row.
    """

    takes: tuple[Value, ...]
    gives: tuple[Value, ...]


def _limit(name: str, kind: Kind) -> Value:
    return Value(name, kind, f"its_{name}", is_optional=True)


_SUBJECT = (Value("kind", Kind.TEXT, "its_kind"), Value("key", Kind.TEXT, "its_key"))
_IDS = Value("ids", Kind.IDS)
_NAME = Value("name", Kind.TEXT, "its_name")
_FINGERPRINT = Value("fingerprint", Kind.TEXT, "its_fingerprint")
_BEFORE = Value("before", Kind.MOMENT, is_optional=True)
_UNTIL = Value("until", Kind.MOMENT, "moment", is_optional=True)
_CHANGED = (Value("changed", Kind.FLAG),)
_REFUSED = Value("refused", Kind.IDS)

ACTS: Final[Mapping[str, Act]] = {
    "pause": Act(_SUBJECT, _CHANGED),
    "resume": Act(_SUBJECT, _CHANGED),
    "set_limit": Act(
        (
            *_SUBJECT,
            _limit("concurrency", Kind.WHOLE),
            _limit("rate", Kind.NUMBER),
            _limit("burst", Kind.WHOLE),
            _limit("share", Kind.NUMBER),
            _limit("reserve", Kind.NUMBER),
            _limit("backlog", Kind.WHOLE),
            Value("cleared", Kind.NAMES, is_optional=True),
        ),
        (Value("control", Kind.JSON),),
    ),
    "cancel": Act((_IDS,), (Value("cancelled", Kind.IDS), Value("requested", Kind.RUNS), _REFUSED)),
    "restart": Act(
        (_IDS, Value("is_counted", Kind.FLAG, is_optional=True)),
        (Value("restarted", Kind.RUNS), Value("requested", Kind.RUNS), _REFUSED),
    ),
    "retry": Act((_IDS,), (Value("retried", Kind.IDS), _REFUSED)),
    "set_priority": Act(
        (_IDS, Value("priority", Kind.WHOLE, "its_priority")),
        (Value("changed", Kind.IDS), _REFUSED),
    ),
    "retry_failures": Act((_FINGERPRINT, _BEFORE), (Value("retried", Kind.WHOLE), _BEFORE)),
    "discard_failures": Act((_FINGERPRINT, _BEFORE), (Value("discarded", Kind.WHOLE), _BEFORE)),
    "postpone_failures": Act(
        (_FINGERPRINT, Value("delay", Kind.NUMBER), _UNTIL),
        (Value("postponed", Kind.WHOLE), _UNTIL),
    ),
    "edit_schedule": Act((_NAME, Value("terms", Kind.JSON)), _CHANGED),
    "pause_schedule": Act((_NAME,), _CHANGED),
    "resume_schedule": Act((_NAME,), _CHANGED),
    "remove_schedule": Act((_NAME,), ()),
    "run_schedule": Act((_NAME,), (Value("job_id", Kind.WHOLE),)),
    "drain_node": Act((_NAME,), _CHANGED),
    "undrain_node": Act((_NAME,), _CHANGED),
}
"""The acts by the names of their stored functions."""
