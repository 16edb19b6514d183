"""``txqueue history``, ``stats`` and ``archive``: jobs that have ended, archived ones included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from attrs import asdict

from txqueue.cli.options import Command, GlobalOptions, limited, moment_option, selecting, together
from txqueue.cli.output import Lines, job_state, listing, local_time, note, show
from txqueue.cli.source import note_unknown_names, read_database, with_pyarrow
from txqueue.model.humanize import amount, counted, duration

ENDED = ("done", "failed", "cancelled")
SHOWN = (
    *("job_id", "state", "work_type", "queue", "group", "tenant", "priority", "attempt", "node_id"),
    *("enqueued_at", "assigned_at", "started_at", "finished_at", "error"),
)


_spanning = together(
    click.option(
        "--from",
        "since",
        metavar="WHEN",
        callback=moment_option,
        help="Ended on this day or moment, or later (default: a day before --to).",
    ),
    click.option(
        "--to",
        "until",
        metavar="WHEN",
        callback=moment_option,
        help="Ended before this day or moment (default: now).",
    ),
)


@click.command(cls=Command)
@_spanning
@selecting("queue", "work_type", states=ENDED)
@limited(most=1_000_000)
@click.pass_obj
def history(
    options: GlobalOptions,
    /,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    **filters: str | None,
) -> None:
    """List ended jobs, the latest first, archived ones too."""
    from txqueue.store.reads.history import about_archived, about_past

    begin, end = _span(options, since, until)
    live = read_database(
        options,
        lambda schema: about_past(
            schema=schema, since=begin, until=end, limit=limit, filters=filters
        ),
    )
    days = read_database(options, lambda schema: about_archived(schema, begin, end))
    rows_by_id = {row["job_id"]: {**row, "archived": False} for row in live}
    wanted = [day for day in days if filters["state"] in (None, day["state"])]
    unread: list[str] = []
    if wanted and len(rows_by_id) < limit:
        with with_pyarrow():
            from txqueue.archive.reading import archived_jobs
        old = archived_jobs(
            wanted, begin, end, limit=limit, filters=filters, columns=SHOWN, unread=unread
        )
        # A day may have been archived and dropped between the two queries.
        rows_by_id = {row["job_id"]: {**_short(row), "archived": True} for row in old} | rows_by_id
    listed = sorted(rows_by_id.values(), key=_newest_first)[:limit]
    document = {"jobs": listed, "from": begin, "to": end, "archived_days": len(days)}
    show(options, {**document, "unread": unread}, lambda: _list(listed))
    if not listed:
        note_unknown_names(options, filters)
    _warn(unread)


@click.command(cls=Command, short_help="Count ended jobs per hour and work type.")
@_spanning
@click.pass_obj
def stats(options: GlobalOptions, since: datetime | None, until: datetime | None) -> None:
    """Count ended jobs per hour and work type, with their run times and waiting times.

    Archived days are included, with whole hours at both ends.
    """
    from txqueue.store.reads.history import about_archived, about_stats

    begin, end = _span(options, since, until)
    rows = read_database(options, lambda schema: about_stats(schema, begin, end))
    days = read_database(options, lambda schema: about_archived(schema, begin, end))
    unread: list[str] = []
    # The database has the sums of the others.
    if uncounted := [day for day in days if not day["is_counted"]]:
        with with_pyarrow():
            from txqueue.archive.reading import with_archived
        rows = with_archived(rows, uncounted, begin, end, unread=unread)
    document = {"stats": rows, "from": begin, "to": end, "unread": unread}
    show(options, document, lambda: _hours(rows))
    _warn(unread)


@click.command(cls=Command, short_help="Archive old history as Parquet, and drop it.")
@click.option("--to", "location", metavar="LOCATION", help="A folder, or s3://bucket/prefix.")
@click.option(
    "--before",
    callback=moment_option,
    metavar="DAY",
    help="All days before this one, not only those past retention.",
)
@click.pass_obj
def archive(options: GlobalOptions, location: str | None, before: datetime | None) -> None:
    """Write days of history past retention to Parquet files, and then drop them.

    Each day's file is read back and compared before the day is dropped. S3 keys come from the
    environment or a profile, as for AWS's own programs.
    """
    from txqueue.store.inquiries.reader import Session

    until = None if before is None else before.astimezone(UTC).date()
    with with_pyarrow():
        from txqueue.archive.writing import archive as archived
    with Session(options.chosen_dsn, options.chosen_schema) as session:
        done = archived(session, location, until, lambda one: _tell(options, one))
    document = {"archived": [asdict(day) for day in done]}
    show(options, document, lambda: _archived(document["archived"]))


def _warn(unread: Sequence[str]) -> None:
    """Say which archived days are missing in what was shown."""
    for text in unread:
        click.echo(f"warning: {text}", err=True)


def _span(
    options: GlobalOptions, since: datetime | None, until: datetime | None
) -> tuple[datetime, datetime]:
    from txqueue.store.reads.queue_state import about_clock

    end = until or read_database(options, about_clock).astimezone(UTC)
    begin = since or end - timedelta(days=1)
    if begin >= end:
        raise click.UsageError("--from is not before --to")
    return begin, end


def _tell(options: GlobalOptions, one: Any) -> None:
    note(options, f"{one.state} {one.day}: {counted(one.jobs, 'job')}, {one.outcome}")


def _short(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return an archived job with only the first line of its error, as other lists show it."""
    return {**job, "error": job["error"].split("\n", 1)[0] if job.get("error") else None}


def _newest_first(job: Mapping[str, Any]) -> tuple[float, int]:
    return -job["finished_at"].timestamp(), -job["job_id"]


def _list(jobs: Sequence[Mapping[str, Any]]) -> Lines:
    columns = [">job", "state", "type", "queue", ">runs", "ended", "where", "error"]
    return listing("History", columns, map(_job, jobs), "No such job.")


def _job(job: Mapping[str, Any]) -> list[object]:
    return [
        str(job["job_id"]),
        job_state(job["state"]),
        job["work_type"],
        job["queue"],
        str(job["attempt"]),
        local_time(job["finished_at"]),
        "archive" if job["archived"] else "table",
        job["error"] or "-",
    ]


def _hours(rows: Sequence[Mapping[str, Any]]) -> Lines:
    columns = ["hour", "type", ">done", ">failed", ">cancelled", ">total", ">mean", ">longest"]
    return listing(
        "Ended",
        [*columns, ">had waited"],
        (_hour(row) for row in rows),
        "Nothing has ended in that time.",
    )


def _hour(row: Mapping[str, Any]) -> list[object]:
    counts = [amount(row[name]) for name in ("done", "failed", "cancelled")]
    times = [row[name] for name in ("busy", "mean", "longest", "waited")]
    return [
        f"{row['hour'].astimezone():%Y-%m-%d %H:%M}",
        row["work_type"],
        *counts,
        *("-" if seconds is None else duration(seconds) for seconds in times),
    ]


def _archived(days: Sequence[Mapping[str, Any]]) -> Lines:
    rows = (
        [
            day["day"].isoformat(),
            day["state"],
            amount(day["jobs"]),
            day["outcome"],
            day["path"],
        ]
        for day in days
    )
    return listing(
        "Archived",
        ["day", "state", ">jobs", "outcome", "where"],
        rows,
        "Nothing is to be archived.",
    )
