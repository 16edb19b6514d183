"""Filters of jobs as people type them."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.errors import ConfigurationError
from txqueue.model.job_filters import (
    PayloadFilter,
    TagFilter,
    WaitFilter,
    read_payload_filter,
    read_tag_filter,
    read_time,
    read_wait_filter,
)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("a", "a", None),
        ("a=", "a", ""),
        ("a=b=c", "a", "b=c"),
        ("a= b", "a", " b"),
    ],
)
def test_a_filter_by_tag(text: str, name: str, value: str | None) -> None:
    """The first sign divides; without one any value matches."""
    assert read_tag_filter(text) == TagFilter(name, value)


@pytest.mark.parametrize("text", ["", "=", "=b", "a b", "a\0=b", "a=\0", "a=\ud800", "ä=b"])
def test_what_names_no_tag(text: str) -> None:
    """Is refused."""
    with pytest.raises(ConfigurationError):
        read_tag_filter(text)


@pytest.mark.parametrize(
    ("text", "reason", "signal", "is_step"),
    [
        ("signal", "signal", None, True),
        ("signal=a=b", "signal", "a=b", True),
        ("sleep", "sleep", None, True),
        ("group", "group", None, False),
    ],
)
def test_a_filter_by_waits(text: str, reason: str, signal: str | None, is_step: bool) -> None:
    """A signal may be named."""
    assert read_wait_filter(text) == WaitFilter(reason, signal)
    assert read_wait_filter(text).is_step is is_step


@pytest.mark.parametrize("text", ["", "signals", "sleep=x", "signal\0", "Signal"])
def test_what_no_job_waits_for(text: str) -> None:
    """Is refused, with what there is."""
    with pytest.raises(ConfigurationError):
        read_wait_filter(text)


@pytest.mark.parametrize(
    ("value", "as_json"),
    [
        ("42", "42"),
        ('"42"', '"42"'),
        ("true", "true"),
        ("null", "null"),
        ('{"a": [1]}', '{"a": [1]}'),
        ("spring", None),
        ("", None),
        ("NaN", None),
        ("Infinity", None),
        ("1e999", None),
        ("9" * 5000, None),
        ("[" * 100_000, None),
        (r'"\u0000"', None),
        (r'"\ud800"', None),
    ],
)
def test_a_filter_by_payload(value: str, as_json: str | None) -> None:
    """The value is text, and JSON as well if PostgreSQL accepts it."""
    assert read_payload_filter(f"key={value}") == PayloadFilter("key", value, as_json)


@pytest.mark.parametrize("text", ["", "key", "=42", "a\0=42", "a=\0"])
def test_what_names_no_key(text: str) -> None:
    """Is refused."""
    with pytest.raises(ConfigurationError):
        read_payload_filter(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2h", timedelta(hours=2)),
        ("90s", timedelta(seconds=90)),
        ("1.5 d", timedelta(days=1.5)),
        ("2026-11-22", datetime(2026, 11, 22, tzinfo=UTC)),
        ("2026-11-22T13:00Z", datetime(2026, 11, 22, 13, tzinfo=UTC)),
        ("2026-11-22T13:00+02:00", datetime(2026, 11, 22, 11, tzinfo=UTC)),
    ],
)
def test_a_time(text: str, time: datetime | timedelta) -> None:
    """A moment, or how long ago."""
    assert read_time(text) == time


@pytest.mark.parametrize("text", ["", "h", "-2h", "soon", "2026-13-01", "9e8d", "1e400s", "nan"])
def test_what_is_no_time(text: str) -> None:
    """Is refused, with examples."""
    with pytest.raises(ConfigurationError, match="neither a moment nor a length"):
        read_time(text)


@pytest.mark.parametrize("text", ["2099", "7", " 90 ", "0"])
def test_a_bare_number_is_no_time(text: str) -> None:
    """It would mean seconds, where a year may be meant."""
    with pytest.raises(ConfigurationError, match=f"a year or seconds; .* or {text.strip()}s for"):
        read_time(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """With the error that the command line and the pages expect, and no other."""
    for read in (read_tag_filter, read_payload_filter, read_time):
        with suppress(ConfigurationError):
            read(text)
