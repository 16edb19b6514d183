"""The AMP commands for operators, and the check of their arguments before they are sent.

Documents are JSON texts. A list comes in pages of up to 60,000 bytes: ``next`` is the ``after`` of
the next page, and empty after the last. A text longer than 65,000 bytes, such as a job with a large
payload, continues in values named ``job.1``, ``job.2`` and so on. Job numbers are joined by commas.

Twisted's arguments are strict or lax by kind: `amp.Float` refuses 5, `amp.Integer` sends 1.7 as 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from types import new_class
from typing import Any, ClassVar, Final, cast

from twisted.protocols import amp

from txqueue.errors import AdminRefused
from txqueue.model.operator_acts import ACTS, WHY, Act, ValueKind
from txqueue.wire.commands import LongText


def _may(kind: type[amp.Argument]) -> amp.Argument:
    return kind(optional=True)


_AFTER, _NEXT = (b"after", _may(amp.Unicode)), (b"next", amp.Unicode())
# In an answer a document may be long.
_KINDS: Final[Mapping[ValueKind, type[amp.Argument]]] = {
    **dict.fromkeys(ValueKind, amp.Unicode),
    ValueKind.WHOLE: amp.Integer,
    ValueKind.NUMBER: amp.Float,
    ValueKind.FLAG: amp.Boolean,
}


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


class _Act(_Command):
    """The base class of the commands that act.

    Attributes:
        act: The name of the act.
    """

    act: str


class ListNodes(_Command):
    """List the nodes with host, load and start; the row of the answering node has its workers.

    Of more than a thousand, those that live or ended last.
    """

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

    With ``tag``, ``payload``, ``error``, ``waiting_for`` or a time a page ends after a limited
    number of jobs was looked at: ``searched`` has it, or 0 if the page ends for another reason.
    ``obeyed`` names those of the given filters that older nodes ignore.
    """

    newer: ClassVar[frozenset[str]] = frozenset({"act", "node", "fingerprint", "waiting_for"})
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
        (b"waiting_for", _may(amp.Unicode)),
        (b"act", _may(amp.Unicode)),
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


class ListFailures(_Command):
    """List the kinds of failure by work type, with the number of jobs, dates and an example."""

    arguments = [_AFTER]
    response = [(b"failures", LongText()), _NEXT]


class ActOnSchedule(_Command):
    """Pause, resume, remove or run a schedule; the answer has the number of the new job, or 0."""

    arguments = [(b"name", amp.Unicode()), (b"act", amp.Unicode()), (b"why", _may(amp.Unicode))]
    response = [(b"changed", amp.Boolean()), (b"job_id", amp.Integer())]


def _command(name: str, act: Act) -> type[_Act]:
    """Return the command of an act, as its declaration says; ``act`` is the number for undo."""
    arguments = [
        (value.name.encode(), _KINDS[value.kind](optional=value.is_optional))
        for value in (*act.takes, WHY)
    ]
    response = [
        (value.name.encode(), LongText() if value.kind is ValueKind.JSON else _KINDS[value.kind]())
        for value in act.gives
    ]
    response.append((b"act", _may(amp.Integer)))
    members = {"act": name, "arguments": arguments, "response": response, "__module__": __name__}
    return cast(
        "type[_Act]", new_class(act.command, (_Act,), {}, lambda made: made.update(members))
    )


ACT_COMMANDS: Final[Mapping[str, type[_Act]]] = {
    name: _command(name, act) for name, act in ACTS.items() if act.command
}
"""The commands of `ACTS`, but for those that `ActOnSchedule` stands for."""


# The most bytes of a value of AMP, and of the length before each element of a list.
_MOST_BYTES, _LENGTH = 65_535, 2
# The largest number of PostgreSQL.
_MOST_WHOLE = 2**63 - 1


def checked_arguments(command: type[amp.Command], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command, each of the type that is sent.

    Raises:
        AdminRefused: When an argument is missing, unknown or not of its kind.
    """
    kinds = {name.decode(): kind for name, kind in command.arguments}
    for name in values.keys() - kinds.keys():
        raise AdminRefused(
            f"{command.__name__} has no argument {name!r}", f"its arguments are {', '.join(kinds)}"
        )
    for name in [
        argument for argument, kind in kinds.items() if not kind.optional and argument not in values
    ]:
        raise AdminRefused(f"{command.__name__} needs the argument {name!r}", "pass it")
    return {name: _READERS[type(kinds[name])](name, value) for name, value in values.items()}


def whole_numbers(name: str, values: Iterable[Any]) -> list[int]:
    """Return a list of numbers of jobs.

    Raises:
        AdminRefused: When the values are no list, or one of them is no whole number.
    """
    return [_whole(name, element) for element in _elements(name, values, "numbers")]


def texts(name: str, values: Iterable[Any]) -> list[str]:
    """Return a list of texts.

    Raises:
        AdminRefused: When the values are no list, or one of them is no text or too long.
    """
    checked = [_text(name, element) for element in _elements(name, values, "texts")]
    if sum(len(element.encode()) + _LENGTH for element in checked) > _MOST_BYTES:
        raise AdminRefused(f"{name} is too long", f"pass less than {_MOST_BYTES:,} bytes")
    return checked


def _elements(name: str, values: Any, kind: str) -> Iterable[Any]:
    """Return the values; a text is refused, as its characters would be taken for them."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise _not_of_kind(name, values, f"a list of {kind}")
    return values


def _whole(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise _not_of_kind(name, value, "a whole number") from None
    if abs(number) > _MOST_WHOLE:
        raise AdminRefused(f"{name} is too large", f"pass at most {_MOST_WHOLE}")
    return number


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _not_of_kind(name, value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise _not_of_kind(name, value, "a number") from None


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _not_of_kind(name, value, "a text")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise _not_of_kind(name, value, "a text that UTF-8 can encode") from None
    if length > _MOST_BYTES:
        raise AdminRefused(f"{name} is too long", f"pass at most {_MOST_BYTES:,} bytes")
    return value


def _not_of_kind(name: str, value: Any, kind: str) -> AdminRefused:
    shortened = ascii(value)[:60]
    return AdminRefused(f"{name} is {shortened}, a {type(value).__name__}", f"pass {kind}")


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _not_of_kind(name, value, "True or False")
    return value


_READERS: dict[type[amp.Argument], Callable[[str, Any], Any]] = {
    amp.Boolean: _flag,
    amp.Integer: _whole,
    amp.Float: _number,
    amp.Unicode: _text,
    amp.ListOf: texts,
}
