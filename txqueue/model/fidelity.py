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


def find_change(original: Any, copy: Any, path: str = "$") -> str | None:
    """Return what differs, and where, without a value; None if both are equal and of one type.

    An int equals a float of the same value, as a field of floats takes ints, and the database
    returns floats from 1e16 without a fraction.

    Args:
        original: The object that was converted.
        copy: What was made from its JSON.
        path: Where in the whole object both are.
    """
    kind = _type(original)
    if kind is _type(copy):
        if kind in _SCALARS:
            return _change_of_value(original, copy, path)
        return _comparer(kind)(original, copy, path)
    if {kind, _type(copy)} <= _NUMBERS and original == copy:
        return None
    return f"{_name(original)} would arrive as {_name(copy)} @ {path}"


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


def _change_of_value(original: Any, copy: Any, path: str) -> str | None:
    return None if original == copy else f"its value would change @ {path}"


def _change_of_moment(original: datetime, copy: datetime, path: str) -> str | None:
    # Two moments in zones of different types are never equal in the hour that comes twice.
    if original.utcoffset() != copy.utcoffset():
        return _change_of_value(original, copy, path)
    return _change_of_value(original.replace(tzinfo=None), copy.replace(tzinfo=None), path)


def _change_of_set(original: Any, copy: Any, path: str) -> str | None:
    return _change_of_value(_exactly(original), _exactly(copy), path)


def _change_of_fields(original: Any, copy: Any, path: str) -> str | None:
    names = _field_names(_type(original))
    values_of_both = ((name, getattr(original, name), getattr(copy, name)) for name in names)
    return _first((f"{path}.{name}", *values) for name, *values in values_of_both)


def _change_of_order(original: Any, copy: Any, path: str) -> str | None:
    if len(original) > 1:
        return f"an OrderedDict would lose its order @ {path}"
    return _change_of_mapping(original, copy, path)


def _are_flat(originals: Iterable[Any], copies: Iterable[Any]) -> bool:
    """Tell, quickly, whether both have the same text and numbers, in the same order."""
    original_values, copied_values = list(originals), list(copies)
    types = list(map(type, original_values))
    return (
        _SCALARS.issuperset(types)
        and types == list(map(type, copied_values))
        and original_values == copied_values
    )


def _change_of_list(original: Any, copy: Any, path: str) -> str | None:
    if len(original) != len(copy) or _are_flat(original, copy):
        return _change_of_value(len(original), len(copy), path)
    pairs = enumerate(zip(original, copy, strict=True))
    return _first((f"{path}[{index}]", *pair) for index, pair in pairs)


def _first(pairs: Iterable[tuple[str, Any, Any]]) -> str | None:
    changes = (find_change(original, copy, path) for path, original, copy in pairs)
    return next((change for change in changes if change is not None), None)


def _change_of_mapping(original: Any, copy: Any, path: str) -> str | None:
    if _exactly(original) != _exactly(copy):
        return f"its keys would change @ {path}"
    if _are_flat(original.values(), map(copy.__getitem__, original)):
        return None
    return _first((f"{path}[{key!r}]", value, copy[key]) for key, value in original.items())


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
