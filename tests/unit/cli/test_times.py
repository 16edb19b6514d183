"""Lengths of time as people type them."""

from datetime import timedelta

import pytest

from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.cli.schedules import length_or_part


def test_a_part_of_the_period() -> None:
    """Or a length of time."""
    assert length_or_part("10%") == 0.1
    assert length_or_part("1.5 h") == timedelta(seconds=5400)


def test_what_is_no_length_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Is refused before anything is asked, with how to write one."""
    words = ["schedule", "edit", "sync", "--every", "1d", "--jitter"]
    assert run([*words, "-1%"], GlobalOptions()) == 2
    assert "1d, or 10% of the period" in capsys.readouterr().err
    assert run(["jobs", "--running-for", "10%"], GlobalOptions()) == 2
    assert "'10%' is not a length of time" in capsys.readouterr().err
