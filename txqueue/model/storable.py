"""What JSON and PostgreSQL can store, and JSON that any role may have stored; kinds of numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Final

from txqueue.errors import InvalidWork

to_json: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
"""Writes JSON as the database gets it."""
CONSTANT: Final = frozenset({str, int, bool, NoneType})
"""Types whose values JSON carries as they are; the database may return a float as an int."""
_TEXT: Final = frozenset({str})


def is_storable(text: str) -> bool:
    """Tell whether PostgreSQL can store a text: without NUL characters and lone surrogates."""
    try:
        return "\0" not in text and bool(text.encode() or True)
    except UnicodeEncodeError:
        return False


def is_name(value: object, most: int) -> bool:
    """Tell whether a value is a text of 1 to `most` characters that PostgreSQL can store."""
    return isinstance(value, str) and 1 <= len(value) <= most and is_storable(value)


def is_number(value: object, most: float = sys.float_info.max) -> bool:
    """Tell whether a value is a number of some size: no bool, nan or infinity."""
    # An int may be too large for math.isfinite(), and for each later calculation.
    return isinstance(value, int | float) and type(value) is not bool and abs(value) <= most


def is_whole(value: object, least: int, most: int) -> bool:
    """Tell whether a value is a whole number within bounds."""
    return isinstance(value, int) and type(value) is not bool and least <= value <= most


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON as it was read, for ``object_pairs_hook``.

    Raises:
        ValueError: When it has a name twice: all but one of the values would be lost.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("two keys of an object are one text, as 1 and '1' are")
    return found


def is_json_already(value: Any) -> bool:
    """Tell whether data is what JSON's text would be read as; this takes less than making it."""
    kind = type(value)
    if kind in CONSTANT:
        return True
    if kind is list:
        return all(map(is_json_already, value))
    if kind is dict:
        return _TEXT.issuperset(map(type, value)) and all(map(is_json_already, value.values()))
    return False


def find_unstorable(value: Any, path: str = "$", *, is_text_free: bool = False) -> str | None:
    """Return what in a payload JSON or PostgreSQL cannot carry, and where; None for a good one.

    Args:
        value: The payload, or a part of it.
        path: Where in the payload the part is. Keys of mappings are data, and not shown.
        is_text_free: Whether text may have NUL characters and lone surrogates, as it may if it is
            encrypted.
    """
    try:
        return next(_unstorable(value, path, is_text_free), None)
    except RecursionError:
        return f"data nested too deeply @ {path}"


def find_unstorable_field(payload: Mapping[str, Any]) -> str | None:
    """Return what in a payload cannot be stored, and the path of its field; None for a good one."""
    for name, value in payload.items():
        path = f"$.{name}" if name.isidentifier() else "$[...]"
        if reason := find_unstorable(name, "$, a key") or find_unstorable(value, path):
            return reason
    return None


def check_payload(text: str) -> str:
    """Return the JSON text of a payload, unparsed, so that no number changes its form.

    Raises:
        InvalidWork: When it is not that of an object, or cannot be stored.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        hint = 'write it like {"user_id": 7}; in a shell, between single quotes'
        raise InvalidWork(f"the payload is not JSON: {error}", hint) from None
    if not isinstance(value, dict):
        hint = 'pass the work item\'s fields, like {"user_id": 7}'
        raise InvalidWork("the payload is not a JSON object", hint)
    if reason := find_unstorable_field(value):
        raise InvalidWork(f"the payload cannot be stored: {reason}", "leave it out")
    return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it has no {name}")


def _unstorable(value: Any, path: str, is_text_free: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(key, str | int | float | None):
                yield f"JSON has no {type(key).__name__} as key @ {path}"
            yield from _unstorable(key, f"{path}, a key", is_text_free)
            yield from _unstorable(member, f"{path}[...]", is_text_free)
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            yield from _unstorable(member, f"{path}[{index}]", is_text_free)
    elif isinstance(value, str):
        if not is_text_free and not is_storable(value):
            yield f"a NUL character or half a surrogate pair, which cannot be stored @ {path}"
    elif not _is_json(value):
        yield f"JSON cannot carry this {type(value).__name__} @ {path}"


def _is_json(value: Any) -> bool:
    try:
        return to_json(value) != ""
    except (TypeError, ValueError):
        return False


def read_json(text: str | None) -> Any:
    """Parse JSON text; return the text itself where it is too long or too deep for Python."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
