"""Checks a payload by the published schema of its type, where the class itself is not there.

Of JSON Schema these are the words that `payload_schema` and pydantic write; others are ignored, as
the standard asks. As in payloads, ``true`` is no number and ``1.0`` is no whole number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import ge, gt, le, lt
from types import NoneType
from typing import Any, Final
from uuid import UUID

from txqueue.model.humanize import cut
from txqueue.model.strict_types import converter

# How many characters of a rule are shown.
_SHOWN: Final = 200

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (NoneType,),
    "array": (list,),
    "object": (dict,),
}
_FORMATS: Final[Mapping[str, Any]] = {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
}


def find_misfit(schema: Mapping[str, Any], payload: Any) -> str | None:
    """Return what of a payload does not fit a schema, and where; None for one that fits.

    The text has no values, keys of mappings or numbers of items, so that it is the same for alike
    payloads.

    Args:
        schema: The schema, with ``$defs`` if it refers to parts.
        payload: What JSON's text was read as.
    """
    try:
        return next(_Check(schema.get("$defs", {})).misfits(schema, payload, "$"), None)
    except RecursionError:
        return "data nested too deeply @ $"


class _Check:
    """Compares values with schemas that refer to the same parts."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = parts

    def misfits(self, schema: Any, value: Any, path: str) -> Iterator[str]:
        """Yield each misfit of a value."""
        if schema is False:
            yield f"more than expected @ {path}"
        if not isinstance(schema, Mapping):
            return
        for word, given in schema.items():
            if word in _RULES and not _RULES[word](value, given):
                rule = cut(f"{word} {given}", _SHOWN)
                what = f"expected {given}" if word == "type" else f"invalid value ({rule})"
                yield f"{what} @ {path}"
        if "$ref" in schema:
            part = self._parts.get(schema["$ref"].rpartition("/")[2], {})
            yield from self.misfits(part, value, path)
        for part in schema.get("allOf", ()):
            yield from self.misfits(part, value, path)
        yield from self._of_choice(schema.get("anyOf") or schema.get("oneOf"), value, path)
        if isinstance(value, list):
            yield from self._of_items(schema, value, path)
        elif isinstance(value, dict):
            yield from self._of_members(schema, value, path)

    def _of_choice(self, among: Any, value: Any, path: str) -> Iterator[str]:
        if not among:
            return
        found = [list(self.misfits(part, value, path)) for part in among]
        if all(found):
            # Of an optional value, the misfit of its own type says more.
            others = [part for part in among if part != {"type": "null"}]
            only = list(self.misfits(others[0], value, path)) if len(others) == 1 else []
            yield from only if value is not None and only else [f"fits no type @ {path}"]

    def _of_items(self, schema: Mapping[str, Any], value: list[Any], path: str) -> Iterator[str]:
        first = schema.get("prefixItems", ())
        for part, item in zip(first, value, strict=False):
            yield from self.misfits(part, item, f"{path}[...]")
        for item in value[len(first) :]:
            yield from self.misfits(schema.get("items", True), item, f"{path}[...]")

    def _of_members(
        self, schema: Mapping[str, Any], value: dict[str, Any], path: str
    ) -> Iterator[str]:
        known = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield f"required field missing @ {path}.{name}"
        others = schema.get("additionalProperties", True)
        for name, member in value.items():
            if name in known:
                yield from self.misfits(known[name], member, f"{path}.{name}")
            elif others is False:
                yield f"extra fields found @ {path}"
            else:
                yield from self.misfits(others, member, f"{path}[...]")


def _is_of_type(value: Any, name: Any) -> bool:
    names = [name] if isinstance(name, str) else name
    return any(type(value) in _TYPES.get(each, ()) for each in names)


def _is_same(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) is isinstance(other, bool)


def _has_form(value: Any, name: str) -> bool:
    """Tell whether a text has a form, by what workers read it as; other values have no form."""
    if name not in _FORMATS or not isinstance(value, str):
        return True
    with suppress(Exception):
        converter.structure(value, _FORMATS[name])
        return True
    return False


def _has_pattern(text: str, pattern: str) -> bool:
    # Pydantic's expressions are those of Rust, of which Python does not read all.
    with suppress(re.error):
        return re.search(pattern, text) is not None
    return True


def _limit(kinds: Any, holds: Callable[[Any, Any], bool], measure: Any = None) -> Any:
    """Return a rule about the values of some types, or what they measure; it holds for others."""
    return lambda value, given: (
        type(value) not in kinds or holds(measure(value) if measure else value, given)
    )


_NUMBERS: Final = (int, float)
_RULES: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "type": _is_of_type,
    "enum": lambda value, among: any(_is_same(value, each) for each in among),
    "const": _is_same,
    "format": _has_form,
    "minimum": _limit(_NUMBERS, ge),
    "maximum": _limit(_NUMBERS, le),
    "exclusiveMinimum": _limit(_NUMBERS, gt),
    "exclusiveMaximum": _limit(_NUMBERS, lt),
    "minLength": _limit((str,), ge, len),
    "maxLength": _limit((str,), le, len),
    "minItems": _limit((list,), ge, len),
    "maxItems": _limit((list,), le, len),
    "pattern": _limit((str,), _has_pattern),
}
