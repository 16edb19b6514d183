"""Lengths of time as people type them."""

from datetime import timedelta

import click
import pytest

from txqueue.cli.options import Length


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1.5 h", 5400), ("5min", 300), ("5m", 300), ("2d", 172800), ("7", 7)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    """As people write them; a bare number is of seconds."""
    assert Length().convert(text, None, None) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "-1h", "1h 5min", "1w", "nan", "10%", "9e99d"])
def test_what_is_no_length_of_time(text: str) -> None:
    """Is refused before anything is asked."""
    with pytest.raises(click.BadParameter, match="is not a length of time"):
        Length().convert(text, None, None)


def test_a_part_of_the_period() -> None:
    """Only where it has a meaning."""
    assert Length(takes_percent=True).convert("10%", None, None) == 0.1
