"""How numbers, ages and foreign text are written for people."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.model.humanize import age, amount, duration, moment, plain, rate

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (3.9, "3 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86400 * 3 + 3600 * 4, "3 d 4 h"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    """The two largest units, without what is zero."""
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00321, "3.2 ms"),
        (0.25, "250 ms"),
        (0.9996, "1.0 s"),
        (4.12, "4.1 s"),
        (75, "1 min 15 s"),
        (-1, "0 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    """Short ones to the tenth, a part of a second to the millisecond."""
    assert duration(seconds) == text


def test_numbers() -> None:
    """Thousands are set apart; a slow rate keeps a decimal."""
    assert amount(1234567) == "1,234,567"
    assert [rate(0), rate(0.25), rate(9.96), rate(12345.6)] == ["0", "0.2", "10", "12,346"]


def test_moments_say_how_long_ago_or_ahead() -> None:
    """Both directions; PostgreSQL's extremes do not break it."""
    assert moment(NOW - timedelta(seconds=90), NOW).endswith("(1 min 30 s ago)")
    assert moment(NOW + timedelta(hours=2), NOW).endswith("(in 2 h)")
    assert moment(datetime.max.replace(tzinfo=UTC), NOW)


@given(st.text())
def test_foreign_text_cannot_drive_the_terminal(text: str) -> None:
    """No control character is left but newline and tab; harmless text stays as it is."""
    shown = plain(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown if c not in "\n\t")
    if text.isprintable() and text.isascii():
        assert shown == text


def test_an_escape_sequence_is_shown_as_what_it_is() -> None:
    """Colours, right-to-left overrides and titles of windows."""
    assert plain("a\x1b[31mb\u202ec") == "a\\x1b[31mb\\u202ec"


def test_a_name_with_a_line_break_stays_one_line() -> None:
    """It would forge a line of a table, or of the log."""
    assert plain("mail\nnode x is alive\u2028!") == "mail\\x0anode x is alive\\u2028!"
