"""Charts: lines in a box, with gaps where nothing is known."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from txqueue.web.charts import HEIGHT, WIDTH, charts, nice_ceiling

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SPAN, STEP = timedelta(hours=1), timedelta(minutes=1)
COLUMNS = ("enqueued", "done", "failed", "ready", "waiting", "assigned")
TIMES = ("wait_p50", "wait_p95", "run_p50", "run_p95")


def row(minutes: float, value: float | None) -> dict[str, Any]:
    """Return what happened in a step that began some minutes ago."""
    at = NOW - timedelta(minutes=minutes)
    return {"at": at, **dict.fromkeys(COLUMNS, value or 0.0), **dict.fromkeys(TIMES, value)}


values = st.none() | st.floats(0, 1e9)


@example([(0, 5e-324)])
@given(st.lists(st.tuples(st.integers(0, 90), values), max_size=60, unique_by=lambda pair: pair[0]))
def test_each_point_lies_in_the_box(points: list[tuple[int, float | None]]) -> None:
    """Whatever the values, and also those of before the time."""
    rows = [row(minutes, value) for minutes, value in sorted(points, reverse=True)]
    for chart in charts(rows, NOW, SPAN, STEP):
        for line in chart.lines:
            for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", line.path):
                assert 0 <= float(x) <= WIDTH
                assert 0 <= float(y) <= HEIGHT


def test_a_time_without_marks_is_a_gap() -> None:
    """Not a straight line over it."""
    rows = [row(minutes, 1.0) for minutes in (50, 49, 48, 20, 19)]
    done = charts(rows, NOW, SPAN, STEP)[0].lines[0]
    assert re.sub(r"[^ML]", "", done.path) == "MLLML"


def test_a_chart_says_its_last_values_in_words() -> None:
    """For a reader who does not see it."""
    [speed, *_] = charts([row(2, 7.0), row(1, 30.0)], NOW, SPAN, STEP)
    assert speed.summary == "Jobs a second, last: done 30; enqueued 30; failed attempts 30"
    assert (speed.top, speed.marks) == ("50", ("1 h", "45 min", "30 min", "15 min"))
    said = "2026-01-01 23:59 UTC: done 30; enqueued 30; failed attempts 30"
    assert [text for text in speed.points if text] == [said]
    [_, _, wait, _] = charts([row(1, None)], NOW, SPAN, STEP)
    assert [line.last for line in wait.lines] == ["unknown", "unknown"]


def test_the_day_before_is_a_line_of_its_own_over_marks_of_hours() -> None:
    """Two hours apart is a gap."""
    before = [{"seconds": 3600.0, **row(minutes, 9.0)} for minutes in (59, 20, 1)]
    [speed, *_] = charts([row(1, 4.0)], NOW, SPAN, STEP, before=before)
    assert (speed.top, speed.lines[-1].name) == ("10", "done, a day before")
    assert re.sub(r"[^ML]", "", speed.lines[-1].path) == "MLL"


@pytest.mark.parametrize(
    ("seconds", "top"),
    [(0.3, "500 ms"), (0.6, "1 s"), (45, "1 min"), (1999, "1 h"), (50_000, "1 d"), (4e5, "5 d")],
)
def test_the_upper_edge_of_times_is_a_step_of_time(seconds: float, top: str) -> None:
    """Not 33 min 20 s."""
    assert charts([row(1, seconds)], NOW, SPAN, STEP)[2].top in (top, f"{top[0]}.0{top[1:]}")


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (5e-324, 1), (0.3, 0.5), (1, 1), (1.2, 2), (21, 50), (99, 100), (501, 1000)],
)
def test_the_upper_edge_is_a_round_number(value: float, top: float) -> None:
    """The next one above."""
    assert nice_ceiling(value) == pytest.approx(top)
