"""The graph of a job: its bars and marks lie on one axis, which has the steps that people use."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.web.relations import relations

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NONE: dict[str, Any] = {"parents": [], "children": [], "counts": {}, "child_count": 0}
STEP = {"kind": "step", "error": None, "child": None, "child_state": None, "until": None}


def ago(seconds: float | None) -> datetime | None:
    """Return the moment some seconds ago."""
    return None if seconds is None else NOW - timedelta(seconds=seconds)


def job(state: str, *times: float | None, **more: Any) -> dict[str, Any]:
    """Return a job that was enqueued, assigned, started and finished so many seconds ago."""
    names = ("enqueued_at", "assigned_at", "started_at", "finished_at")
    moments = dict(zip(names, map(ago, times), strict=True))
    row = {"job_id": 1, "work_type": "test.kind", "state": state, "at": NOW}
    return {**row, **moments, "attempts": [], "stages": [], **more}


@pytest.mark.parametrize(
    ("span", "first", "marks"),
    [
        (0.0042, "1 ms", 4),
        (9, "2 s", 4),
        (55, "10 s", 5),
        (200, "1 min", 3),
        (2000, "10 min", 3),
        (3000, "10 min", 5),
        (86400, "6 h", 4),
    ],
)
def test_the_axis_has_steps_of_time_that_people_use(span: float, first: str, marks: int) -> None:
    """A few of them, named without rests."""
    texts = [text for _, text in relations(job("done", span, 0, 0, 0), NONE, []).ticks()]
    assert (texts[0], len(texts)) == (first, marks)
    assert all(len(text.split()) == 2 for text in texts)


seconds = st.floats(0, 1e8) | st.none()


@given(st.floats(0, 1e8), seconds, seconds, seconds, st.sampled_from(["done", "assigned"]))
def test_each_bar_and_mark_lies_on_the_axis(
    enqueued: float, assigned: float | None, started: float | None, ended: float | None, state: str
) -> None:
    """Also if the clock was set back."""
    row = job(state, enqueued, assigned, started, ended)
    graph = relations(row, {**NONE, "parents": [row]}, [])
    for nodes in graph.groups.values():
        for bar in (bar for node in nodes for bar in node.bars):
            assert 0 <= graph.place(bar.begin) <= graph.place(bar.end) <= 100
    assert all(0 < place <= 100 for place, _ in graph.ticks())


def test_a_step_begins_where_what_came_before_it_ended() -> None:
    """Only the end of a step is stored; a wait has both."""
    nap = {**STEP, "kind": "sleep", "until": ago(30), "began_at": ago(80), "ended_at": ago(20)}
    steps = [
        {**STEP, "name": "charge", "began_at": ago(80), "ended_at": ago(80)},
        {**nap, "name": "nap"},
        {**STEP, "name": "mail", "began_at": ago(5), "ended_at": ago(5)},
    ]
    graph = relations(job("assigned", 100, 90, 90, None), NONE, steps)
    texts = [node.text for node in graph.groups["steps"]]
    assert texts == ["took 10 s", "slept 50 s", "took 15 s"]
