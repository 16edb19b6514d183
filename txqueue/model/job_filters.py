"""Filters of jobs that people type: tags, values in the payload, waits and moments; and a job's
tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from attrs import frozen

from txqueue.errors import ConfigurationError, InvalidWork
from txqueue.model.humanize import length_of, moment_of
from txqueue.model.storable import is_storable

MOST_TAGS, LONGEST_VALUE = 10, 200
TAG_NAME = re.compile(r"[A-Za-z0-9_.-]{1,50}")
"""What the name of a tag looks like."""
# A control character, or half of a surrogate pair, which PostgreSQL cannot store.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_REMEDY = "give a mapping of names to texts, such as {'campaign': 'spring'}"


def checked_tags(tags: object) -> dict[str, str]:
    """Return tags as a dictionary, after a check.

    Raises:
        InvalidWork: When they are too many, or a name or a value is not valid.
    """
    if not isinstance(tags, Mapping):
        raise InvalidWork(f"tags are no mapping but a {type(tags).__name__}", _REMEDY)
    if len(tags) > MOST_TAGS:
        raise InvalidWork(f"{len(tags)} tags are too many", f"give at most {MOST_TAGS}")
    for name, value in tags.items():
        _check_name(name)
        _check_value(name, value)
    return dict(tags)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not TAG_NAME.fullmatch(name):
        raise InvalidWork(
            f"{str(name)[:60]!r} is not the name of a tag",
            "use 1 to 50 of the letters A to Z and a to z, digits, _ . and -",
        )


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidWork(f"the tag {name} is no text but a {type(value).__name__}", _REMEDY)
    if len(value) > LONGEST_VALUE:
        raise InvalidWork(
            f"the tag {name} has {len(value)} characters, more than {LONGEST_VALUE}",
            "give a shorter text, and put data into the payload",
        )
    if _UNFIT.search(value):
        raise InvalidWork(
            f"the tag {name} has a control character", "give a line of text without them"
        )


def tags_of(options: object) -> Mapping[str, str]:
    """Return the tags in a job's options by name, sorted; none if there are no valid ones."""
    tags = options.get("tags") if isinstance(options, Mapping) else None
    pairs = tags if isinstance(tags, dict) else {}
    texts = {name: value for name, value in sorted(pairs.items()) if type(value) is str}
    return MappingProxyType(texts)


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
    if not is_storable(text):
        raise ConfigurationError(
            "a filter has a character that no job can have", "leave out NUL and invalid characters"
        )
    return text


def _json_of(text: str) -> str | None:
    """Return JSON text that PostgreSQL accepts; None if the text is none."""
    try:
        # Not for those that filter nothing: it takes a while.
        from txqueue.model.results import encode_result

        return encode_result(json.loads(text))
    except (ValueError, RecursionError, InvalidWork):
        return None
