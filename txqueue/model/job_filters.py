"""Filters of jobs that people type: tags, values in the payload, waits and moments."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from attrs import frozen

from txqueue.errors import ConfigurationError, InvalidWork
from txqueue.model.tags import TAG_NAME
from txqueue.model.time_text import length_of, moment_of

__all__ = [
    "PayloadFilter",
    "TagFilter",
    "WaitFilter",
    "check_storable",
    "read_payload_filter",
    "read_tag_filter",
    "read_time",
    "read_wait_filter",
]

_STEPS = ("signal", "sleep", "call")
_WAITS = (*_STEPS, "time", "parents", "group", "rate", "unique", "type", "version")

# Farther back than any job, and within PostgreSQL's dates.
_LONGEST = timedelta(days=36_525)


@frozen
class TagFilter:
    """The jobs with a tag.

    Attributes:
        name: The name of the tag.
        value: The tag's value; None for any.
    """

    name: str
    value: str | None


@frozen
class PayloadFilter:
    """The jobs whose payload has a key with a value.

    Attributes:
        key: A key of the payload itself, not of an object inside of it.
        text: The value as text.
        json: The value as JSON text; None if the text is not JSON.
    """

    key: str
    text: str
    json: str | None


@frozen
class WaitFilter:
    """The jobs that wait for something.

    Attributes:
        reason: What they wait for.
        signal: The name of the signal; None for any.
    """

    reason: str
    signal: str | None

    @property
    def is_step(self) -> bool:
        """Whether they wait at a step."""
        return self.reason in _STEPS


def read_tag_filter(text: str) -> TagFilter:
    """Return the filter ``NAME=VALUE``, or ``NAME`` for any value.

    Raises:
        ConfigurationError: When the text names no tag.
    """
    name, sign, value = check_storable(text).partition("=")
    if not TAG_NAME.fullmatch(name):
        raise ConfigurationError(
            f"{text[:60]!r} names no tag", "write NAME=VALUE, or NAME for any value"
        )
    return TagFilter(name, value if sign else None)


def read_payload_filter(text: str) -> PayloadFilter:
    """Return the filter ``KEY=VALUE``.

    Raises:
        ConfigurationError: When the text has no key or no value.
    """
    key, sign, value = check_storable(text).partition("=")
    if not key or not sign:
        raise ConfigurationError(
            f"{text[:60]!r} names no key of a payload", "write KEY=VALUE, such as order_id=42"
        )
    return PayloadFilter(key, value, _json_of(value))


def read_wait_filter(text: str) -> WaitFilter:
    """Return the filter ``REASON``, or ``signal=NAME``.

    Raises:
        ConfigurationError: When no job waits for that.
    """
    reason, sign, name = check_storable(text).partition("=")
    if reason not in _WAITS or (sign and reason != "signal"):
        raise ConfigurationError(
            f"{text[:60]!r} is nothing that jobs wait for",
            f"write signal=NAME, or one of {', '.join(_WAITS)}",
        )
    return WaitFilter(reason, name if sign else None)


def read_time(text: str) -> datetime | timedelta:
    """Return a moment, or how long ago one was.

    Raises:
        ConfigurationError: When the text is neither a moment nor a length of up to a hundred years,
            or a number without a unit.
    """
    try:
        return moment_of(text)
    except ValueError:
        """It is a length of time, or wrong."""
    if text.strip().isdigit():
        raise ConfigurationError(
            f"{text[:60]!r} may mean a year or seconds",
            f"write a day, such as 2026-11-22, or {text.strip()[:20]}s for so long ago",
        )
    try:
        if (length := length_of(text)) <= _LONGEST:
            return length
    except ValueError:
        """Refused below."""
    raise ConfigurationError(
        f"{text[:60]!r} is neither a moment nor a length of time",
        "write 2026-11-22, 2026-11-22T13:00Z, or 90s, 5min, 2h or 1d for so long ago",
    )


def check_storable(text: str) -> str:
    """Return a text after a check that PostgreSQL can compare it with what it stores.

    Raises:
        ConfigurationError: When the text has a NUL character or half of a surrogate pair.
    """
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigurationError(
            "a filter has a character that no job can have", "leave out NUL and invalid characters"
        )
    return text


def _json_of(text: str) -> str | None:
    """Return JSON text that PostgreSQL accepts; None if the text is none."""
    try:
        # Not for those that filter nothing: it takes a while.
        from txqueue.model.result_json import encode_result

        return encode_result(json.loads(text))
    except (ValueError, RecursionError, InvalidWork):
        return None
