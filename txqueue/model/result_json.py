"""Converts what handlers return to JSON text, and bounds its length."""

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn

from cattrs import Converter

from txqueue.errors import InvalidWork
from txqueue.model.foreign import text_of
from txqueue.model.storable import CONSTANT, distinct, is_json_already
from txqueue.model.strict_types import strict_converter

__all__ = ["LONGEST_SMALL", "check_length", "encode_result", "encode_results", "small_result"]

# The encoder of json.dumps() with these options, which it makes for each call.
_result_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


def _refuse_bytes(value: bytes) -> NoReturn:
    raise TypeError(f"JSON has no {type(value).__name__}: make text of them, as by base64")


# Fields of a payload say that they are bytes; a reader of a result would take them for text.
_converter = strict_converter(detailed_validation=False)
_converter.register_unstructure_hook(bytes, _refuse_bytes)
# Python refuses to write much larger integers.
_LARGE = 1 << 64


def encode_result(
    value: Any,
    what: str = "the result",
    remedy: str = "return plain data or an attrs object",
    writer: Converter = _converter,
) -> str:
    """Convert a handler's result into JSON text.

    Args:
        value: The result, or another value.
        what: What an error calls it.
        remedy: What the error advises.
        writer: Makes plain data of it.

    Raises:
        InvalidWork: When the result does not fit JSON.
    """
    try:
        if is_json_already(value):
            return _checked(_result_json(value))
        text = _checked(_result_json(writer.unstructure(value)))
        if "{" in text:
            json.loads(text, object_pairs_hook=distinct)
        return text
    except BaseException as error:
        raise InvalidWork(f"{what} is not JSON: {text_of(error)}", remedy) from None


# The most members of a small result, and the most characters of each of its keys and texts: its
# JSON has no more than LONGEST_SMALL bytes.
_MOST_MEMBERS, _LONGEST_MEMBER = 16, 200
LONGEST_SMALL = 1 << 16
"""The most bytes of the JSON text of a result that `small_result` takes."""


def small_result(value: Any) -> Any:
    """Return a copy of a result if it is small, flat and surely fits JSON; None for any other.

    An encoder for each result takes five times as long as its part of a text with all: these are
    encoded together, by `encode_results`. A handler may change its own object until then.
    """
    kind = type(value)
    if kind is dict:
        copy = value.copy()
        return copy if len(copy) <= _MOST_MEMBERS and _are_small(copy) else None
    if kind is list:
        copy = value.copy()
        return copy if len(copy) <= _MOST_MEMBERS and all(map(_is_small, copy)) else None
    return value if _is_small(value) else None


def _are_small(members: dict[Any, Any]) -> bool:
    # A loop: `all` costs as much as the rest for the few members of most results.
    for key, member in members.items():
        if type(key) is not str or not (_is_small(key) and _is_small(member)):
            return False
    return True


def _is_small(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        # No printable text has a NUL character or a lone surrogate.
        return len(value) <= _LONGEST_MEMBER and value.isprintable()
    if kind is int:
        return bool(-_LARGE < value < _LARGE)
    return kind in CONSTANT or (kind is float and isfinite(value))


def encode_results(values: Mapping[str, Any]) -> str:
    """Return the members of a JSON object with values that `small_result` has returned."""
    return _result_json(values)[1:-1]


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _checked(text: str) -> str:
    text.encode()  # This raises for lone surrogates, which PostgreSQL cannot store either.
    if "\\u0000" in text and _NUL.search(text):
        raise ValueError("PostgreSQL cannot store a NUL character")
    return text


def check_length(what: str, text: str, longest: int) -> None:
    """Check the length of a JSON text that a worker reports or stores.

    Args:
        what: What the text is, for the error.
        text: The text.
        longest: The most bytes that it may have.

    Raises:
        InvalidWork: When it is too long.
    """
    # A character takes four bytes at most.
    if 4 * len(text) > longest and (length := len(text.encode())) > longest:
        raise InvalidWork(
            f"the {what} has {length:,} bytes of JSON, more than the {longest:,} of this node",
            "store large data elsewhere and return its key, or raise --result-limit",
        )
