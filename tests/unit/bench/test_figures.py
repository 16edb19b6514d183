"""How the measurements count."""

from array import array
from pathlib import Path

import pytest

from txqueue_bench.decay import typical
from txqueue_bench.drain import runs_of
from txqueue_bench.latency import percentile
from txqueue_bench.tally import FOLDER_VARIABLE, Tally, noted_numbers


def test_percentiles() -> None:
    """The nearest rank; of nothing, 0."""
    numbers = range(1, 101)
    assert [percentile(numbers, part) for part in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert percentile([7], 99) == 7
    assert percentile([], 50) == 0


def test_runs_are_held_against_the_jobs() -> None:
    """Job 2 never ran, job 3 three times."""
    assert runs_of(array("q", [1, 3, 4, 3, 3]), 4) == (1, 1)
    assert runs_of(array("q"), 2) == (2, 0)


def test_one_slow_wave_of_a_round_does_not_count() -> None:
    """A neighbour's: of each wave the median counts. One that is slow in every round does."""
    speeds = ([100, 110, 40], [50, 120, 90], [110, 100, 95])
    rounds = [{"jobs": 30, "seconds": 1.5, "waves": waves} for waves in speeds]
    result = typical(rounds)
    assert (result["jobs"], result["seconds"], result["rounds"]) == (90, 4.5, 3)
    assert (result["waves"], result["ratio"]) == ([100, 110, 90], 0.9)


def test_what_is_noted_is_there_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing needs to be closed or flushed first."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert noted_numbers(tmp_path) == array("q")
    tally = Tally()
    for number in (5, 2**40, 5):
        tally.add(number)
    assert noted_numbers(tmp_path) == array("q", [5, 2**40, 5])


def test_many_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are read in one go."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    tally = Tally()
    for number in range(1, 140_001):
        tally.add(number)
    assert noted_numbers(tmp_path) == array("q", range(1, 140_001))
