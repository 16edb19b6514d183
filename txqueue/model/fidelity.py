"""Finds where an object differs from what was read back from its JSON."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

import attrs

__all__ = ["find_change"]

_SCALARS = frozenset({str, int, float, bool, type(None)})
_NUMBERS = frozenset({int, float})
_type: Callable[[Any], Any] = type


def find_change(given: Any, read: Any, path: str = "$") -> str | None:
    """Return what differs, and where, without a value; None if both are equal and of one type.

    An int equals a float of the same value, as a field of floats takes ints, and the database
    returns floats from 1e16 without a fraction.

    Args:
        given: The object that was converted.
        read: What was made from its JSON.
        path: Where in the whole object both are.
    """
    kind = _type(given)
    if kind is _type(read):
        if kind in _SCALARS:
            return _change_of_value(given, read, path)
        return _comparer(kind)(given, read, path)
    if {kind, _type(read)} <= _NUMBERS and given == read:
        return None
    return f"{_name(given)} would arrive as {_name(read)} @ {path}"


@cache
def _comparer(kind: Any) -> Callable[[Any, Any, str], str | None]:
    """Return the function that compares two values of a type."""
    if issubclass(kind, list | tuple | deque):
        return _change_of_list
    if issubclass(kind, OrderedDict):
        return _change_of_order
    if issubclass(kind, Mapping):
        return _change_of_mapping
    if issubclass(kind, set | frozenset):
        return _change_of_set
    if issubclass(kind, datetime):
        return _change_of_moment
    return _change_of_fields if _field_names(kind) else _change_of_value


def _change_of_value(given: Any, read: Any, path: str) -> str | None:
    return None if given == read else f"its value would change @ {path}"


def _change_of_moment(given: datetime, read: datetime, path: str) -> str | None:
    # Two moments in zones of different types are never equal in the hour that comes twice.
    if given.utcoffset() != read.utcoffset():
        return _change_of_value(given, read, path)
    return _change_of_value(given.replace(tzinfo=None), read.replace(tzinfo=None), path)


def _change_of_set(given: Any, read: Any, path: str) -> str | None:
    return _change_of_value(_exactly(given), _exactly(read), path)


def _change_of_fields(given: Any, read: Any, path: str) -> str | None:
    names = _field_names(_type(given))
    both = ((name, getattr(given, name), getattr(read, name)) for name in names)
    return _first((f"{path}.{name}", *values) for name, *values in both)


def _change_of_order(given: Any, read: Any, path: str) -> str | None:
    if len(given) > 1:
        return f"an OrderedDict would lose its order @ {path}"
    return _change_of_mapping(given, read, path)


def _are_flat(given: Iterable[Any], others: Iterable[Any]) -> bool:
    """Tell, quickly, whether both have the same text and numbers, in the same order."""
    values, read = list(given), list(others)
    types = list(map(type, values))
    return _SCALARS.issuperset(types) and types == list(map(type, read)) and values == read


def _change_of_list(given: Any, read: Any, path: str) -> str | None:
    if len(given) != len(read) or _are_flat(given, read):
        return _change_of_value(len(given), len(read), path)
    pairs = enumerate(zip(given, read, strict=True))
    return _first((f"{path}[{at}]", *pair) for at, pair in pairs)


def _first(pairs: Iterable[tuple[str, Any, Any]]) -> str | None:
    changes = (find_change(given, read, path) for path, given, read in pairs)
    return next((change for change in changes if change is not None), None)


def _change_of_mapping(given: Any, read: Any, path: str) -> str | None:
    if _exactly(given) != _exactly(read):
        return f"its keys would change @ {path}"
    if _are_flat(given.values(), map(read.__getitem__, given)):
        return None
    return _first((f"{path}[{key!r}]", value, read[key]) for key, value in given.items())


def _exactly(items: Iterable[Any]) -> set[tuple[type, Any]]:
    """Return the items with their types, as True equals 1."""
    return {(float if type(item) is int else type(item), item) for item in items}


@cache
def _field_names(cls: Any) -> list[str]:
    """Return the names of the fields of an attrs class or dataclass.

    A field that JSON does not carry, and that is no part of the object's equality, does not count.
    """
    if attrs.has(cls):
        return [field.name for field in attrs.fields(cls) if field.init or field.eq]
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init or field.compare]
    return []


def _name(value: Any) -> str:
    return "None" if value is None else type(value).__name__
