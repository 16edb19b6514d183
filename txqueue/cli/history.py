"""``txqueue history``, ``stats`` and ``archive``: jobs that have ended, archived ones included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from attrs import asdict

from txqueue.cli import options as cli
from txqueue.cli import output
from txqueue.cli.options import GlobalOptions, command
from txqueue.cli.source import note_unknown_names, read_database, with_pyarrow
from txqueue.model.humanize import counted

ENDED = ("done", "failed", "cancelled")
SHOWN = (
    *("job_id", "state", "work_type", "queue", "group", "tenant", "priority", "attempt", "node_id"),
    *("enqueued_at", "assigned_at", "started_at", "finished_at", "error"),
)


_spanning = cli.together(
    cli.moment_option(
        "--from", "since", "Ended on this day or moment, or later (default: a day before --to)."
    ),
    cli.moment_option("--to", "until", "Ended before this day or moment (default: now)."),
)


@command()
@_spanning
@cli.selecting("queue", "work_type", states=ENDED)
@cli.limited(most=1_000_000)
def history(
    options: GlobalOptions,
    /,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    **filters: str | None,
) -> None:
    """List ended jobs, the latest first, archived ones too.

    Examples:
        history --state failed
        history --from 2026-11-01 --to 2026-11-08
    """
    from txqueue.store.reads.history import about_archived, about_past

    begin, end = _span(options, since, until)
    live = read_database(options, about_past, since=begin, until=end, limit=limit, filters=filters)
    days = read_database(options, about_archived, begin, end)
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
        rows_by_id = {row["job_id"]: _archived(row) for row in old} | rows_by_id
    ended = sorted(rows_by_id.values(), key=lambda job: (job["finished_at"], job["job_id"]))
    listed = ended[: -limit - 1 : -1]
    document: dict[str, Any] = {"jobs": listed, "from": begin, "to": end}
    document |= {"archived_days": len(days), "unread": unread}
    output.show_list(options, document, "History", _JOBS, "No such job.")
    if not listed:
        note_unknown_names(options, filters)
    _warn(unread)


@command()
@_spanning
def stats(options: GlobalOptions, since: datetime | None, until: datetime | None) -> None:
    """Count ended jobs per hour and work type.

    With their run times and waiting times. Archived days are included, with whole hours at both
    ends.

    Examples:
        stats
        stats --from 2026-11-01
    """
    from txqueue.store.reads.history import about_archived, about_stats

    begin, end = _span(options, since, until)
    rows = read_database(options, about_stats, begin, end)
    days = read_database(options, about_archived, begin, end)
    unread: list[str] = []
    # The database has the sums of the others.
    if uncounted := [day for day in days if not day["is_counted"]]:
        with with_pyarrow():
            from txqueue.archive.reading import with_archived
        rows = with_archived(rows, uncounted, begin, end, unread=unread)
    document = {"stats": rows, "from": begin, "to": end, "unread": unread}
    output.show_list(options, document, "Ended", _HOURS, "Nothing has ended in that time.")
    _warn(unread)


@command()
@cli.valued("--to", "LOCATION", "A folder, or s3://bucket/prefix.", "location")
@cli.moment_option(
    "--before", "before", "All days before this one, not only those past retention.", metavar="DAY"
)
def archive(options: GlobalOptions, location: str | None, before: datetime | None) -> None:
    """Archive old history as Parquet, and drop it.

    That is each day past retention: a day's file is read back and compared before the day is
    dropped. S3 keys come from the environment or a profile, as for AWS's own programs.

    Examples:
        archive --to /backup/jobs
        archive --to s3://bucket/jobs --before 2026-11-01
    """
    from txqueue.store.inquiries.reader import Session

    until = None if before is None else before.astimezone(UTC).date()
    with with_pyarrow():
        from txqueue.archive.writing import archive as archived

    def tell(one: Any) -> None:
        output.note(options, f"{one.state} {one.day}: {counted(one.jobs, 'job')}, {one.outcome}")

    with Session(options.chosen_dsn, options.chosen_schema) as session:
        done = archived(session, location, until, tell)
    document = {"archived": [*map(asdict, done)]}
    output.show_list(options, document, "Archived", _DAYS, "Nothing is to be archived.")


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


def _archived(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return an archived job with only the first line of its error, as other lists show it."""
    error = (job.get("error") or "").partition("\n")[0]
    return {**job, "archived": True, "error": error or None}


_JOBS: output.Columns = {
    ">job": "job_id",
    "state": lambda job: output.job_state(job["state"]),
    "type": "work_type",
    "queue": "queue",
    ">runs": "attempt",
    "ended": lambda job: output.local_time(job["finished_at"]),
    "where": lambda job: "archive" if job["archived"] else "table",
    "error": "error",
}
_HOURS: output.Columns = {
    "hour": lambda row: f"{row['hour'].astimezone():%Y-%m-%d %H:%M}",
    "type": "work_type",
    ">done": output.amount_of("done"),
    ">failed": output.amount_of("failed"),
    ">cancelled": output.amount_of("cancelled"),
    ">total": output.duration_of("busy"),
    ">mean": output.duration_of("mean"),
    ">longest": output.duration_of("longest"),
    ">had waited": output.duration_of("waited"),
}
_DAYS: output.Columns = {
    "day": "day",
    "state": "state",
    ">jobs": output.amount_of("jobs"),
    "outcome": "outcome",
    "where": "path",
}
