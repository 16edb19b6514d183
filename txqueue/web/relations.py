"""Places a job, its parts and its relations on a common axis of time, without I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import evolve, frozen

from txqueue.model.humanize import age, counted, cut, duration
from txqueue.model.job import State
from txqueue.store.reads.one_job import run_began
from txqueue.web.charts import time_ceiling

Row = Mapping[str, Any]

# Into how many parts the axis is divided at most, how many steps are drawn, how long names may be.
_PARTS, _STEPS_DRAWN, _LONGEST_NAME = 6, 12, 60


@frozen
class Bar:
    """A stretch of time.

    Attributes:
        kind: ``wait``, the state in which a run ended, or the kind of a step.
        begin: When it began.
        end: When it ended; now if it goes on.
        text: What it is, in words.
    """

    kind: str
    begin: datetime
    end: datetime
    text: str


@frozen
class GraphLine:
    """A line of the graph: a job, or a part of the one that is shown.

    Attributes:
        name: The work type, or the name of a step.
        state: The state of the job, or of the one that a step calls; None for other parts.
        bars: What it did when.
        job_id: The job that it leads to; None for a part of the one that is shown.
        kind: What kind of part it is; empty for a job.
        text: How long it ran, or what else is to be said.
        anchor: Where the page has more about it; empty for elsewhere.
    """

    name: str
    state: str | None
    bars: Sequence[Bar]
    job_id: int | None = None
    kind: str = ""
    text: str = ""
    anchor: str = ""


@frozen
class Graph:
    """A job and its relations.

    Attributes:
        groups: The nodes of each kind of relation.
        begin: The moment at the left edge.
        end: That at the right edge.
    """

    groups: Mapping[str, Sequence[GraphLine]]
    begin: datetime
    end: datetime

    @property
    def span(self) -> float:
        """The seconds between the edges."""
        return max((self.end - self.begin).total_seconds(), 1e-6)

    def place(self, moment: datetime) -> float:
        """Return where a moment is, in percent of the width."""
        return round(100 * (moment - self.begin).total_seconds() / self.span, 2)

    def width(self, bar: Bar) -> float:
        """Return how wide a bar is, in percent; a short one can still be seen."""
        return round(max(self.place(bar.end) - self.place(bar.begin), 0.3), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the marks of the axis: the place of each, and how long after the left edge."""
        step = time_ceiling(self.span / _PARTS)
        marks = (step * number for number in range(1, int(self.span / step) + 1))
        return [(round(100 * mark / self.span, 2), _tick(mark)) for mark in marks]


def _tick(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 0.9995 else age(seconds + 1e-6)


def relations(job: Row, relatives: Mapping[str, Any], steps: Sequence[Row]) -> Graph:
    """Return the graph of a job.

    Args:
        job: The job, as `about_job` returns it.
        relatives: The jobs around it, as `about_relatives` returns them.
        steps: Its steps, as `about_steps` returns them.
    """
    now = job["at"]
    groups = {
        "parents": [_relative(row, now) for row in relatives["parents"]],
        "job": [GraphLine(job["work_type"], job["state"], [*_own_bars(job)], anchor="life")],
        "stages": [*map(_stage, job["stages"])],
        "steps": [*_steps(job, steps)],
        "children": [_relative(row, now) for row in relatives["children"]],
    }
    bars = [bar for nodes in groups.values() for node in nodes for bar in node.bars]
    return Graph(groups, min(bar.begin for bar in bars), max(bar.end for bar in bars))


def _bar(kind: str, begin: datetime, end: datetime, verb: str) -> Bar:
    # Clocks may be set back.
    end = max(begin, end)
    return Bar(kind, begin, end, f"{verb} {duration((end - begin).total_seconds())}")


def _relative(row: Row, now: datetime) -> GraphLine:
    *_, last = bars = [*_life(row, now)]
    name = cut(row["work_type"], _LONGEST_NAME)
    return GraphLine(name, row["state"], bars, row["job_id"], text=last.text)


def _life(row: Row, now: datetime) -> Iterator[Bar]:
    """Yield the wait of a job, and its last run."""
    end = row["finished_at"] or now
    began = run_began(State(row["state"]), row["started_at"], row["assigned_at"])
    yield _bar("wait", row["enqueued_at"], began or end, "waited")
    if began is not None:
        yield _bar(row["state"], began, end, "ran" if row["finished_at"] else "runs for")


def _own_bars(job: Row) -> Iterator[Bar]:
    """Yield the bars of the job that is shown: below all others those of its wait and last run."""
    _, *runs = _life(job, job["at"])
    yield _bar("wait", job["enqueued_at"], job["finished_at"] or job["at"], "lived")
    yield from runs
    for attempt in job["attempts"]:
        if attempt["began"]:
            verb = f"attempt {attempt['attempt']} failed after"
            yield _bar("failed", attempt["began"], attempt["at"], verb)


def _stage(stage: Row) -> GraphLine:
    bars = [_bar("done", stage["began"], stage["ended"], "last ran")] if stage["began"] else []
    texts = [counted(stage["runs"], "run"), *(bar.text for bar in bars)]
    texts += [f"on {stage['node']}"] if stage["node"] else []
    return GraphLine(stage["work_type"], None, bars, kind="stage", text=", ".join(texts))


def _steps(job: Row, steps: Sequence[Row]) -> Iterator[GraphLine]:
    """Yield the steps at which the job waits, and the latest, in their order."""
    ended = sorted(range(len(steps)), key=lambda place: steps[place]["ended_at"] is None)
    moments = sorted(_moments(job, steps))
    for place in sorted(ended[-_STEPS_DRAWN:]):
        yield evolve(_step(job, steps[place], moments), anchor=f"step-{place}")


def _moments(job: Row, steps: Sequence[Row]) -> Iterator[datetime]:
    """Yield the moments from which on a step may have run: those of runs, and the ends of steps."""
    runs = (attempt["at"] for attempt in job["attempts"])
    marks = (job["enqueued_at"], job["assigned_at"], job["started_at"], *runs)
    ends = (step["ended_at"] for step in steps)
    yield from (moment for moment in (*marks, *ends) if moment is not None)


def _step(job: Row, step: Row, moments: Sequence[datetime]) -> GraphLine:
    end = step["ended_at"] or job["finished_at"] or job["at"]
    begin, kind, name = step["began_at"], step["kind"], cut(step["name"], _LONGEST_NAME)
    if kind == "step":
        # Only its end is known: it follows what ended before.
        begin = moments[max(bisect_left(moments, end) - 1, 0)]
    if kind == "sleep" and step["until"] and step["until"] < end:
        end = max(begin, step["until"])
    bar = _bar("failed" if step["error"] else kind, begin, end, _VERBS.get(kind, "took"))
    return GraphLine(name, step["child_state"], [bar], step["child"], kind, bar.text)


_VERBS: Final = {"sleep": "slept", "signal": "waited", "call": "waited"}
