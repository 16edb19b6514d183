"""Draws charts as SVG paths, without I/O: they need no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from attrs import frozen

from txqueue.model.humanize import age, duration, rate

SPANS: Final[Mapping[str, tuple[timedelta, timedelta]]] = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "24h": (timedelta(hours=24), timedelta(minutes=15)),
    "30d": (timedelta(days=30), timedelta(hours=6)),
}
"""How far back a chart goes, and how long a step is, by the name in the address."""

WIDTH: Final = 600.0
HEIGHT: Final = 100.0
# A smaller value is drawn as none: powers of ten of the smallest floats are zero.
LEAST: Final = 1e-9
Rows = Sequence[Mapping[str, Any]]


@frozen
class Line:
    """One line of a chart.

    Attributes:
        name: What it shows.
        kind: The name of its colour.
        path: The SVG path, in a box of `WIDTH` by `HEIGHT`.
        last: Its last value, as text.
    """

    name: str
    kind: str
    path: str
    last: str


@frozen
class Chart:
    """A chart.

    Attributes:
        title: What it shows.
        top: The value at its upper edge, as text.
        begin: How long ago its left edge is, as text.
        lines: Its lines.
        summary: The chart in words, for those who cannot see it.
    """

    title: str
    top: str
    begin: str
    lines: tuple[Line, ...]
    summary: str


def charts(
    rows: Rows, now: datetime, span: timedelta, step: timedelta, *, is_part: bool = False
) -> list[Chart]:
    """Return the charts of what jobs did.

    Args:
        rows: The steps of the time, the oldest first.
        now: The time by the database's clock.
        span: How far back the charts go.
        step: How long a step is.
        is_part: Whether they are of one queue or work type: enqueued jobs are counted all together.
    """
    enqueued = {} if is_part else {"enqueued": ("enqueued", "ready")}
    chart = _Frame(rows, now - span, span, step).chart
    return [
        chart("Jobs a second", rate, done=("done", "done"), **enqueued, failed=_FAILED),
        chart(
            "Jobs that have not ended",
            lambda number: f"{number:,.0f}",
            ready=("ready", "ready"),
            waiting=("waiting", "waiting"),
            assigned=("running", "assigned"),
        ),
        chart("Wait until the start", duration, wait_p50=_MEDIAN, wait_p95=_SLOW),
        chart("Run time", duration, run_p50=_MEDIAN, run_p95=_SLOW),
    ]


# The name of a line and that of its colour.
_FAILED, _MEDIAN, _SLOW = ("failed attempts", "failed"), ("p50", "done"), ("p95", "waiting")


@frozen
class _Frame:
    """What charts are drawn of: the rows of a span of time."""

    rows: Rows
    begin: datetime
    span: timedelta
    step: timedelta

    def chart(
        self, title: str, format_value: Callable[[float], str], **columns: tuple[str, str]
    ) -> Chart:
        values = [row[column] or 0.0 for row in self.rows for column in columns]
        top = nice_ceiling(max(values, default=0.0))
        lines = [
            Line(*label, self._path(column, top), self._last(column, format_value))
            for column, label in columns.items()
        ]
        summary = "; ".join(f"{line.name} {line.last}" for line in lines)
        return Chart(
            title=title,
            top=format_value(top),
            begin=age(self.span.total_seconds()),
            lines=tuple(lines),
            summary=f"{title}, last: {summary}",
        )

    def _last(self, column: str, format_value: Callable[[float], str]) -> str:
        known = [row[column] for row in self.rows if row[column] is not None]
        return format_value(known[-1]) if known else "unknown"

    def _path(self, column: str, top: float) -> str:
        parts, previous_at = [], None
        for row in self.rows:
            if row[column] is None:
                continue
            # A gap in the marks is a gap in the line: nothing is known of that time.
            is_gap = previous_at is None or row["at"] - previous_at > 1.5 * self.step
            x = max(0.0, min(WIDTH, WIDTH * ((row["at"] - self.begin) / self.span)))
            y = HEIGHT - HEIGHT * min(row[column] / top, 1.0)
            parts.append(f"{'M' if is_gap else 'L'}{x:.1f} {y:.1f}")
            previous_at = row["at"]
        return " ".join(parts)


def nice_ceiling(value: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is not below a value; 1 for none."""
    if value < LEAST or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1.0, 2.0, 5.0, 10.0) if power * step >= value * 0.999)
