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
_POINTS: Final = 30
"""How many values of a chart the pointer finds."""
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_TIMES: Final = (
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0),
    *(_MINUTE * number for number in (1, 2, 5, 10, 20, 30)),
    *(_HOUR * number for number in (1, 2, 3, 6, 12)),
)
"""The upper edges of charts of times, from a second to a day."""
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
        marks: How long ago equal parts of its width are, as text.
        lines: Its lines.
        points: The values in equal parts of its width, as text; empty where nothing is known.
        summary: The chart in words, for those who cannot see it.
    """

    title: str
    top: str
    marks: tuple[str, ...]
    lines: tuple[Line, ...]
    points: tuple[str, ...]
    summary: str


def charts(
    rows: Rows,
    now: datetime,
    span: timedelta,
    step: timedelta,
    *,
    before: Rows = (),
    is_part: bool = False,
) -> list[Chart]:
    """Return the charts of what jobs did.

    Args:
        rows: The steps of the time, the oldest first.
        now: The time by the database's clock.
        span: How far back the charts go.
        step: How long a step is.
        before: The steps of the day before, with the times of today.
        is_part: Whether they are of one queue or work type: enqueued jobs are counted all together.
    """
    enqueued = {} if is_part else {"enqueued": ("enqueued", "ready")}
    chart = _Frame(rows, before, now - span, span, step).chart
    return [
        chart("Jobs a second", rate, done=("done", "done"), **enqueued, failed=_FAILED),
        chart(
            "Jobs that have not ended",
            lambda number: f"{number:,.0f}",
            ready=("ready", "ready"),
            waiting=("waiting", "waiting"),
            assigned=("running", "assigned"),
        ),
        chart("Wait until the start", duration, wait_p95=_SLOW, wait_p50=_MEDIAN),
        chart("Run time", duration, run_p95=_SLOW, run_p50=_MEDIAN),
    ]


# The name of a line and that of its colour.
_FAILED, _MEDIAN, _SLOW = ("failed attempts", "failed"), ("p50", "done"), ("p95", "waiting")


@frozen
class _Frame:
    """What charts are drawn of: the rows of a span of time."""

    rows: Rows
    before: Rows
    begin: datetime
    span: timedelta
    step: timedelta

    def chart(
        self, title: str, format_value: Callable[[float], str], **columns: tuple[str, str]
    ) -> Chart:
        first = next(iter(columns))
        values = [row[column] or 0.0 for row in self.rows for column in columns]
        values += [row[first] or 0.0 for row in self.before]
        ceiling = time_ceiling if format_value is duration else nice_ceiling
        top = ceiling(max(values, default=0.0))
        lines = [
            Line(*label, self._path(self.rows, column, top), self._last(column, format_value))
            for column, label in columns.items()
        ]
        summary = "; ".join(f"{line.name} {line.last}" for line in lines)
        if self.before:
            path = self._path(self.before, first, top)
            lines.append(Line(f"{lines[0].name}, a day before", "before", path, ""))
        return Chart(
            title=title,
            top=format_value(top),
            marks=self._marks(),
            lines=tuple(lines),
            points=self._points(format_value, columns),
            summary=f"{title}, last: {summary}",
        )

    def _marks(self) -> tuple[str, ...]:
        seconds, parts = self.span.total_seconds(), 4 if self.span <= timedelta(days=1) else 3
        return tuple(age(seconds * part / parts) for part in range(parts, 0, -1))

    def _points(
        self, format_value: Callable[[float], str], columns: Mapping[str, tuple[str, str]]
    ) -> tuple[str, ...]:
        texts = [""] * _POINTS
        for row in self.rows:
            place = int(_POINTS * ((row["at"] - self.begin) / self.span))
            values = "; ".join(
                f"{name} {format_value(row[column])}"
                for column, (name, _) in columns.items()
                if row[column] is not None
            )
            texts[max(0, min(place, _POINTS - 1))] = f"{row['at']:%Y-%m-%d %H:%M %Z}: {values}"
        return tuple(texts)

    def _last(self, column: str, format_value: Callable[[float], str]) -> str:
        known = [row[column] for row in self.rows if row[column] is not None]
        return format_value(known[-1]) if known else "unknown"

    def _path(self, rows: Rows, column: str, top: float) -> str:
        parts, previous_at = [], None
        for row in rows:
            if row[column] is None:
                continue
            # A gap in the marks is a gap in the line: nothing is known of that time.
            is_gap = previous_at is None or row["at"] - previous_at > self._gap(row)
            x = max(0.0, min(WIDTH, WIDTH * ((row["at"] - self.begin) / self.span)))
            y = HEIGHT - HEIGHT * min(row[column] / top, 1.0)
            parts.append(f"{'M' if is_gap else 'L'}{x:.1f} {y:.1f}")
            previous_at = row["at"]
        return " ".join(parts)

    def _gap(self, row: Mapping[str, Any]) -> timedelta:
        """Return the least gap in the marks; those of days past are an hour long."""
        return 1.5 * max(self.step, timedelta(seconds=row.get("seconds") or 0.0))


def time_ceiling(seconds: float) -> float:
    """Return the least step of time, as people count it, that is not below a value."""
    if seconds * 0.999 <= _TIMES[0] / 2:
        return nice_ceiling(seconds)
    nice = next((step for step in _TIMES if step >= seconds * 0.999), None)
    return nice or _DAY * nice_ceiling(seconds / _DAY)


def nice_ceiling(value: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is not below a value; 1 for none."""
    if value < LEAST or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1.0, 2.0, 5.0, 10.0) if power * step >= value * 0.999)
