"""Lengths of time and moments as people type them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.model.humanize import length_of, length_text, moment_ahead, moment_of


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1s"), (90, "90s"), (300, "5min"), (7200, "2h"), (86400, "1d"), (0.25, "0.25s")],
)
def test_a_length_is_written_in_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    """And is read again."""
    assert length_text(seconds) == text
    assert length_of(text) == timedelta(seconds=seconds)


@given(st.integers(0, 366 * 86400 * 10**6))
def test_no_length_changes_when_it_is_written_and_read(microseconds: int) -> None:
    """To the microsecond."""
    length = timedelta(microseconds=microseconds)
    assert length_of(length_text(length.total_seconds())) == length


@pytest.mark.parametrize("text", ["", "h", "-1h", "1w", "nan", "inf", "10%", "9e99d", "٣ days"])
def test_what_is_no_length(text: str) -> None:
    """The message says how to write one."""
    with pytest.raises(ValueError, match="write 90s, 5min, 2h or 1d"):
        length_of(text)


def test_a_moment_is_in_utc_without_an_offset() -> None:
    """A day is its first moment."""
    assert moment_of("2027-01-31") == datetime(2027, 1, 31, tzinfo=UTC)
    east = timezone(timedelta(hours=1))
    assert moment_of("2027-01-31 18:00+01:00") == datetime(2027, 1, 31, 18, tzinfo=east)
    with pytest.raises(ValueError, match="not a day or a moment"):
        moment_of("tomorrow")


@pytest.mark.parametrize("text", ["1517", "1.5", "yesterday", "epoch", "infinity", "-2h"])
def test_what_is_no_moment_ahead(text: str) -> None:
    """The message has all that is allowed; a number without a unit may be that of a job."""
    with pytest.raises(ValueError, match=r"has no unit; write 30s|a day or a moment.*, nor now"):
        moment_ahead(text)
