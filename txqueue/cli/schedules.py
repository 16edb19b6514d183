"""``txqueue schedules``: lists schedules, with when each is due and its last run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions, limited, selecting
from txqueue.cli.output import Lines, job_state, listing, local_time, note, show, styled, table
from txqueue.cli.source import read_database
from txqueue.cli.unknown_names import note_unknown_names
from txqueue.model.humanize import age, amount, duration

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["dated_schedules", "no_run", "schedules", "show_runs"]

# A run that starts more seconds after its due time than this is marked as delayed.
LATE = 60.0


@click.command(cls=Command, short_help="List schedules: when each is due, how it ran.")
@selecting("work_type", "group", "tenant", what="schedules")
@limited(100)
@click.option(
    "--after",
    metavar="NAME",
    help="Continue after this schedule: the last one of the previous page.",
)
@click.pass_obj
def schedules(options: GlobalOptions, /, limit: int, **filters: str | None) -> None:
    """List schedules, with when each is due and its last run."""
    rows, now = dated_schedules(options, filters, limit + 1)
    listed = rows[:limit]
    following = listed[-1]["name"] if len(rows) > limit else None
    show(options, {"schedules": listed, "next": following}, lambda: _list(listed, now))
    if not listed:
        note_unknown_names(options, filters)
    if following is not None:
        note(options, f"More: --after {following}")


def dated_schedules(
    options: GlobalOptions, filters: Mapping[str, str | None], limit: int
) -> tuple[list[dict[str, Any]], datetime]:
    """Return schedules, and the time by the database's clock."""
    from txqueue.store.inquiries.together import together
    from txqueue.store.reads.queue_state import about_clock
    from txqueue.store.reads.schedule_list import about_schedules

    rows, now = read_database(
        options, lambda schema: together(about_schedules(schema, filters, limit), about_clock())
    )
    return rows, now


def show_runs(options: GlobalOptions, rows: Sequence[Mapping[str, Any]], none: str) -> None:
    """Print the runs of schedules, or what to say if there are none."""
    show(options, {"runs": rows}, lambda: _runs(rows, none))


def no_run(row: Mapping[str, Any] | None, now: datetime) -> str:
    """Say why a schedule has no run to show: there is none of that name, or it was not due yet."""
    if row is None:
        return "There is no such schedule."
    return f"No run yet; the first is due: {_next(row, now)}."


def _list(rows: Sequence[Mapping[str, Any]], now: datetime) -> Lines:
    if not rows:
        yield styled("There is no such schedule.")
        return
    columns = ["schedule", "when", "type", "group", "next", "last", ">late", ">took", ">worst"]
    yield table("Schedules", columns, (_row(row, now) for row in rows))
    for row in rows:
        if row["error"]:
            yield styled(f"{row['name']}: {row['error']}", "bold red")


def _row(row: Mapping[str, Any], now: datetime) -> list[object]:
    return [
        row["name"],
        _timing(row),
        row["work_type"],
        row["group"] or "-",
        _next(row, now),
        _outcome(row),
        _late(row["late"]),
        _length(row["took"]),
        _worst(row),
    ]


def _timing(row: Mapping[str, Any]) -> str:
    if row["kind"] == "cron":
        text = f"{row['expression']} {row['zone']}"
    else:
        word = "every" if row["kind"] == "every" else "after"
        start = " from the start" if row["since"] == "start" else ""
        text = f"{word} {age(row['seconds'])}{start}"
    sign = "±" if row["kind"] == "every" else "+"
    varies = f" {sign}{duration(row['jitter'])}" if row["jitter"] else ""
    overlap = ", no overlap" if row["overlap"] == "skip" else ""
    return text + varies + overlap + _end(row)


def _end(row: Mapping[str, Any]) -> str:
    times = f", {amount(row['enqueued'])} of {amount(row['times'])} times" if row["times"] else ""
    until = f", until {row['until'].astimezone():%Y-%m-%d %H:%M}" if row["until"] else ""
    return times + until


def _next(row: Mapping[str, Any], now: datetime) -> Text:
    if not row["is_active"]:
        return styled("paused", "yellow")
    if row["has_ended"]:
        return styled("never again", "dim")
    if not row["has_class"]:
        return styled("no node has its class", "bold red")
    if row["next_due"] is None:
        return styled("when it has ended" if row["kind"] == "cooldown" else "to be computed", "dim")
    seconds = (row["next_due"] - now).total_seconds()
    if seconds < -LATE:
        return styled(f"{age(-seconds)} overdue", "bold red")
    return styled(f"in {age(seconds)}")


def _outcome(row: Mapping[str, Any]) -> Text:
    outcome = row["outcome"] or "-"
    failed = f" ({amount(row['failed'])} of {row['runs']} failed)" if row["failed"] else ""
    return job_state(outcome, outcome + failed)


def _worst(row: Mapping[str, Any]) -> str:
    if row["latest"] is None:
        return "-"
    return f"{duration(row['latest'])} late, took {duration(row['slowest'] or 0)}"


def _late(seconds: float | None) -> Text:
    return styled(_length(seconds), "bold red" if (seconds or 0) > LATE else "")


def _length(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _runs(rows: Sequence[Mapping[str, Any]], none: str) -> Lines:
    columns = ["due", "schedule", "group", ">job", "outcome", ">late", ">took", "error"]
    return listing("Runs", columns, map(_run, rows), none)


def _run(row: Mapping[str, Any]) -> list[object]:
    outcome = row["outcome"] or "-"
    return [
        local_time(row["due"]),
        row["name"],
        row["group"] or "-",
        str(row["job_id"]),
        job_state(outcome),
        _late(row["late"]),
        _length(row["took"]),
        row["error"] or "-",
    ]
