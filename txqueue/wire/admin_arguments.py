"""Checks the arguments of an operator's command before it is sent.

Twisted's arguments are strict or lax by kind: `amp.Float` refuses 5, `amp.Integer` sends 1.7 as 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

from twisted.protocols import amp

from txqueue.errors import AdminRefused

__all__ = ["checked_arguments", "texts", "whole_numbers"]

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
