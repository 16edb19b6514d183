"""Pagination: how much of a long list fits into one answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from attrs import frozen

from txqueue.errors import AdminRefused

LARGEST_PAGE = 60_000
# The most jobs that one act may name, so that its transaction stays short.
MOST_NUMBERS = 1_000
LARGEST_NUMBER = 2**63 - 1
_MOMENTS = frozenset(
    {
        *("at", "since", "until", "rank", "oldest", "not_before", "not_after", "began", "ended"),
        *("first_seen", "last_seen", "hour", "due", "next_due", "last_due", "held_until"),
    }
)
# Keys under which application data stands: a text there may look like a timestamp and be none.
_DATA = frozenset(
    {"payload", "result", "progress", "options", "detail", "policy", "report", "tags"}
)


@frozen
class Page:
    """The first part of a list.

    Attributes:
        text: The part as a JSON array.
        last: The last element of the part; None if it is empty.
        is_whole: Whether the part is the whole list.
    """

    text: str
    last: Mapping[str, Any] | None
    is_whole: bool


def first_page(rows: Iterable[Mapping[str, Any]], at_most: int = LARGEST_PAGE) -> Page:
    """Return the first elements of a list: as many as fit, but at least one.

    Args:
        rows: The list.
        at_most: The size limit in bytes of JSON text.
    """
    texts: list[str] = []
    last: Mapping[str, Any] | None = None
    size = len("[]")
    for row in rows:
        text = as_text(row)
        size += len(text.encode()) + 1
        if texts and size > at_most:
            return Page(f"[{','.join(texts)}]", last, is_whole=False)
        texts.append(text)
        last = row
    return Page(f"[{','.join(texts)}]", last, is_whole=True)


def join_numbers(ids: Iterable[int]) -> str:
    """Return job numbers joined by commas, as operators' commands carry them."""
    return ",".join(map(str, ids))


def numbers(text: str) -> list[int]:
    """Return the job numbers in a text of `join_numbers`.

    Raises:
        AdminRefused: When the text has anything but valid job numbers, or too many.
    """
    parts = [part for part in text.split(",") if part.strip()]
    try:
        values = [int(part) for part in parts]
    except ValueError:
        raise AdminRefused(
            f"{text[:100]!r} are not numbers of jobs", "join them by commas: 1,2,3"
        ) from None
    if len(values) > MOST_NUMBERS or not all(0 <= number <= LARGEST_NUMBER for number in values):
        raise AdminRefused(
            f"these are not up to {MOST_NUMBERS} numbers of jobs", "act on fewer at a time"
        )
    return values


def as_text(document: object, indent: int | None = None) -> str:
    """Return a document as JSON text: timestamps in ISO 8601, durations in seconds."""
    return json.dumps(document, default=_plain, ensure_ascii=False, indent=indent)


def read_document(text: str) -> Any:
    """Parse a text of `as_text`; timestamps become datetimes, except inside application data."""
    document = json.loads(text)
    return _with_moments(document)


def _with_moments(value: Any, name: str = "") -> Any:
    if name in _DATA:
        return value
    if isinstance(value, list):
        return [_with_moments(member) for member in value]
    if isinstance(value, dict):
        return {key: _with_moments(member, key) for key, member in value.items()}
    is_moment = isinstance(value, str) and (name in _MOMENTS or name.endswith("_at"))
    return _moment(value) if is_moment else value


def _moment(text: str) -> datetime | str:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
