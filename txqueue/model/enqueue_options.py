"""The options of one job, in all calls that enqueue: each is declared here, and only here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from inspect import cleandoc
from typing import Annotated, Any, Final, NamedTuple, TypedDict, get_args, get_type_hints

from attrs import evolve, field, frozen

from txqueue.errors import InvalidWork
from txqueue.model.humanize import brief
from txqueue.model.job_filters import checked_tags
from txqueue.model.job_policy import MOST_ATTEMPTS, MOST_WEIGHT, UniqueMode, is_timeout
from txqueue.model.keys import LONGEST_KEYS
from txqueue.model.storable import is_name, is_storable, is_whole

# Version ff, and numbers of zeros alone, are not valid.
_TRACEPARENT = re.compile(
    "(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


class _Rule(NamedTuple):
    """Tells whether a value is valid, and the remedy if it is not.

    Attributes:
        holds: Tells whether a value is valid.
        remedy: What to do about one that is not.
        bounds: The least and the most valid number, if the values are numbers.
    """

    holds: Callable[[Any], bool]
    remedy: str
    bounds: tuple[int, int] | None = None


def is_traceparent(value: object) -> bool:
    """Tell whether a value is a header ``traceparent`` of W3C Trace Context."""
    return isinstance(value, str) and _TRACEPARENT.fullmatch(value) is not None


def option_json(value: object) -> object:
    """Convert an option of `enqueue` for JSON: a datetime becomes ISO 8601 with an offset.

    Raises:
        InvalidWork: When a datetime is naive.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidWork(
                f"{value.isoformat()} has no time zone",
                "use datetime.now(timezone.utc) or the like",
            )
        return value.isoformat()
    return value


def _whole(least: int, most: int, remedy: str = "") -> _Rule:
    text = remedy or f"give a whole number from {least} to {most}"
    return _Rule(lambda value: is_whole(value, least, most), text, (least, most))


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        type(number) is int and 0 <= number < 2**63 for number in value
    )


def _name(most: int, example: str = "", hint: str = "") -> _Rule:
    text = f"give a string{example} of 1 to {most} characters without NUL{hint}"
    return _Rule(lambda value: is_name(value, most), text)


def _flag(remedy: str) -> _Rule:
    return _Rule(lambda value: type(value) is bool, remedy)


def _length(hint: str) -> _Rule:
    return _Rule(is_timeout, f"give seconds above 0, at most ten years, {hint}")


_METHOD = "; in a class, write @property above the method"
_MOMENT: Final = _Rule(
    lambda value: isinstance(value, datetime),
    "give an aware datetime, such as datetime.now(UTC) + timedelta(hours=1)",
)
_TEXT: Final = _Rule(
    lambda value: isinstance(value, str) and is_storable(value),
    "give a string without NUL",
)
_MODE: Final = _Rule(
    lambda value: isinstance(value, str) and value in list(UniqueMode),
    "use UniqueMode.KEEP, REPLACE, AGAIN, REJECT or ONCE",
)
_PRIORITY = _whole(0, 9, "use Priority.LOW, NORMAL or HIGH, or a whole number from 0 to 9")


@frozen
class Option:
    """What is known of one option of `enqueue`.

    Attributes:
        about: What the option does, for people.
        rule: The rule of its values. The database checks the same, as it has other clients.
        sql: The type of the option's argument of ``enqueue()``; None for a member of the argument
            ``options``.
        default: What applies if the option is left out, for people.
        by_class: Whether its default is what the work type decides for its jobs.
        stored: Converts a valid value for the statement.
        kind: The type of its values.
    """

    about: str
    rule: _Rule
    sql: str | None = None
    default: str = field(default="none", kw_only=True)
    by_class: bool = field(default=False, kw_only=True)
    stored: Callable[[Any], object] = field(default=option_json, kw_only=True)
    kind: Any = field(default=None, kw_only=True)

    @property
    def line(self) -> str:
        """What the option does, and what applies if it is left out, as a line of text."""
        default = "the work type's own" if self.by_class else self.default
        return f"{self.about} Default: {default}."

    def read(self, name: str, value: object, mask: str = "") -> object:
        """Return the value of the option as it is sent.

        Args:
            name: The option's name.
            value: The value that was given.
            mask: What an error shows instead of the value, if that must not be shown.

        Raises:
            InvalidWork: When the value is not valid.
        """
        if not self.rule.holds(value):
            raise InvalidWork(f"{name} {mask or brief(value)} is not valid", self.rule.remedy)
        return self.stored(value)


def _by_class(about: str, rule: _Rule, sql: str | None = None, **more: Any) -> Option:
    """Return an option for which the work type decides, where a call leaves it out."""
    return Option(about, rule, sql, by_class=True, **more)


class EnqueueOptions(TypedDict, total=False):
    """Options of `enqueue`; those left out, and those that are None, take their default.

    A datetime is an aware one; a length of time is a timedelta or a number of seconds.
    """

    queue: Annotated[str | None, _by_class("The queue in which the job waits.", _name(200), "text")]
    priority: Annotated[
        int | None, _by_class("0 to 9; a higher one runs first.", _PRIORITY, "integer")
    ]
    weight: Annotated[
        int | None,
        _by_class(
            "The share of a worker's capacity that the job takes.",
            _whole(1, MOST_WEIGHT),
            "integer",
        ),
    ]
    not_before: Annotated[
        datetime | None,
        Option("The time before which it does not run.", _MOMENT, "timestamptz", default="now"),
    ]
    not_after: Annotated[
        datetime | None,
        Option(
            "The time before which it should start; its rank rises until then.",
            _MOMENT,
            "timestamptz",
        ),
    ]
    group: Annotated[
        str | None,
        _by_class(
            "The job's group: at most one job of it runs at a time, in their order.",
            _name(LONGEST_KEYS["group"], ", such as f'account:{number}',", _METHOD),
            "text",
        ),
    ]
    tenant: Annotated[
        str | None,
        _by_class(
            "The job's tenant: tenants of a queue take turns.",
            _name(LONGEST_KEYS["tenant"], hint=_METHOD),
            "text",
        ),
    ]
    timeout: Annotated[
        float | timedelta | None,
        _by_class("The longest time of one run.", _length("or None for the work type's own")),
    ]
    attempts: Annotated[
        int | None, _by_class("How many runs it gets in all.", _whole(1, MOST_ATTEMPTS))
    ]
    expires: Annotated[
        bool | None,
        _by_class(
            "Whether it is cancelled if it has not started at its ``not_after``.",
            _flag("give True to cancel the job at its not_after, False to only raise its rank"),
        ),
    ]
    unique: Annotated[
        str | None,
        _by_class(
            "A key that at most one unended job of the work type holds; None: that of the class.",
            _name(LONGEST_KEYS["unique"], hint=_METHOD),
            "text",
        ),
    ]
    unique_mode: Annotated[
        UniqueMode | None,
        _by_class("What to do with a new job whose key another job holds.", _MODE, "text"),
    ]
    as_of: Annotated[
        datetime | None,
        Option(
            "Drops the job if one with the same key was enqueued as of this time or a later one.",
            _MOMENT,
        ),
    ]
    once_for: Annotated[
        float | timedelta | None,
        Option(
            "How long the unique mode ``once`` remembers a key.",
            _length("or a timedelta"),
            default="without limit",
        ),
    ]
    created_by: Annotated[
        str | None, Option("The name of what has enqueued it, for operators.", _TEXT)
    ]
    traceparent: Annotated[
        str | None,
        Option(
            "The trace to continue: a header of W3C Trace Context.",
            _Rule(is_traceparent, "give a header of W3C Trace Context, 00-…-…-01"),
            default="the current one",
        ),
    ]
    tracestate: Annotated[
        str | None,
        Option(
            "The header ``tracestate`` of the trace to continue.", _TEXT, default="the current one"
        ),
    ]
    after: Annotated[
        Sequence[int] | None,
        Option(
            "The numbers of the jobs to wait for until they are done; not with a unique key.",
            _Rule(_are_numbers, "give a list of the numbers of jobs"),
            "bigint[]",
            # The driver sends a tuple as a row.
            stored=list,
        ),
    ]
    after_any_end: Annotated[
        bool | None,
        Option(
            "Whether to wait only until those have ended in any way.",
            _flag("give True to wait for any end, False for jobs that are done"),
            "boolean",
            default="False",
        ),
    ]
    tags: Annotated[
        Mapping[str, str] | None,
        _by_class(
            "At most 10 texts by name, by which people find and filter jobs.",
            _Rule(lambda value: value is not None, ""),
            # It names the tag that is not valid.
            stored=checked_tags,
        ),
    ]


OPTIONS: Final[Mapping[str, Option]] = {
    name: evolve(hint.__metadata__[0], kind=get_args(hint.__origin__)[0])
    for name, hint in get_type_hints(EnqueueOptions, include_extras=True).items()
}
"""The options by name."""

EnqueueOptions.__doc__ = "\n".join(
    [
        f"{cleandoc(EnqueueOptions.__doc__ or '')}\n",
        *(f"{name}: {option.line}" for name, option in OPTIONS.items()),
    ]
)
