"""``txqueue history``, ``stats`` and ``archive``: jobs that have ended, archived ones included; and
``failures``: lists failures by kind, and retries, discards or postpones a kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict

from txqueue.cli import options as cli
from txqueue.cli import output
from txqueue.cli.options import SECONDS, GlobalOptions, Group, command
from txqueue.cli.source import first, note_unknown_names, operate, read, read_database, with_pyarrow
from txqueue.errors import AdminRefused
from txqueue.model.humanize import amount, counted

if TYPE_CHECKING:
    from txqueue.admin import Admin


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


MOST_JOBS, MOST_KINDS = 10_000, 1000
"""The view counts the jobs of each kind and state up to the first number, and the kinds up to the
second."""


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def failures(context: click.Context) -> None:
    """Show failed jobs, and those that wait for a retry, by kind.

    Examples:
        failures
        failures retry FINGERPRINT
        failures discard FINGERPRINT
    """
    if context.invoked_subcommand is not None:
        return
    from txqueue.store.reads.history import about_failures

    options: GlobalOptions = context.obj
    kinds = read(options, about_failures, lambda admin: admin.failures())
    output.show(options, {"failures": kinds}, lambda: _list(kinds))


@command(within=failures)
@click.argument("fingerprint")
def retry(options: GlobalOptions, fingerprint: str) -> None:
    """Retry all failures of a kind now, of all work types.

    Examples:
        failures retry FINGERPRINT
    """
    document, _ = _retried(options, "retry_failures", "retried", fingerprint)
    _tell(options, document, f"{counted(document['retried'], 'job')} to run again.")


@command(within=failures)
@click.argument("fingerprint")
def discard(options: GlobalOptions, fingerprint: str) -> None:
    """Give up all failures of a kind.

    Failed jobs with this kind of failure, of all work types, become cancelled ones. They no longer
    appear in lists and warnings. Jobs that wait for a retry still get it.

    Examples:
        failures discard FINGERPRINT
    """
    total, _, acts = operate(
        options, lambda admin: admin.act_on_failures("discard_failures", fingerprint)
    )
    document = {"fingerprint": fingerprint, "discarded": total, "acts": acts}
    output.say(options, document, f"{counted(total, 'job')} discarded.")
    output.note_undo(options, *acts)


@command(within=failures)
@click.argument("fingerprint")
@click.option(
    "--for",
    "delay",
    type=SECONDS,
    required=True,
    help="After how long the jobs run again, such as 90s, 5min, 1h or 2d.",
)
def postpone(options: GlobalOptions, fingerprint: str, delay: float) -> None:
    """Postpone all failures of a kind.

    All jobs with this kind of failure, of all work types, are retried after the delay.

    Examples:
        failures postpone FINGERPRINT --for 1h
    """
    document, until = _retried(options, "postpone_failures", "postponed", fingerprint, delay=delay)
    document["until"] = until
    when = output.local_time(until)
    _tell(options, document, f"{counted(document['postponed'], 'job')} to run again at {when}.")


def _retried(
    options: GlobalOptions, act: str, key: str, fingerprint: str, **arguments: float
) -> tuple[dict[str, Any], datetime]:
    """Act on a kind of failure; return the result, with why jobs were refused, and the moment."""

    async def run(admin: Admin) -> tuple[dict[str, Any], datetime]:
        total, moment, _ = await admin.act_on_failures(act, fingerprint, **arguments)
        began = moment - timedelta(seconds=arguments.get("delay", 0.0))
        refused = await _left(admin, fingerprint, began)
        reasons = await output.refusals(admin, "retry", refused)
        done = {"fingerprint": fingerprint, key: total, "refused": refused, "reasons": reasons}
        return done, moment

    return operate(options, run)


async def _left(admin: Admin, fingerprint: str, until: datetime) -> list[int]:
    """Return the first jobs of a kind that still are as they failed before a moment."""
    from txqueue.policy.findings.explanation import EXPLAINED

    jobs = admin.jobs(fingerprint=fingerprint, state="failed")
    earlier = (job["job_id"] async for job in jobs if job["finished_at"] <= until)
    # A node may be too old to list them.
    with suppress(AdminRefused):
        return await first(earlier, EXPLAINED)
    return []


def _tell(options: GlobalOptions, document: Mapping[str, Any], text: str) -> None:
    def lines() -> output.Lines:
        yield output.styled(text)
        if document["refused"]:
            yield output.styled(
                f"{counted(len(document['refused']), 'job')} left unchanged.", "yellow"
            )
        yield from output.refusal_lines(document["reasons"])

    output.show(options, document, lines)


def _list(kinds: Sequence[Mapping[str, Any]]) -> output.Lines:
    columns: output.Columns = {
        "fingerprint": "fingerprint",
        "type": "work_type",
        ">failed": lambda kind: _count(kind, "failed"),
        ">waiting": lambda kind: _count(kind, "waiting"),
        "last": lambda kind: f"{kind['last_seen'].astimezone():%m-%d %H:%M:%S}",
        ">example": "example",
        "error": lambda kind: (kind["error"] or "")[:200],
    }
    ordered = sorted(kinds, key=lambda kind: -(kind["failed"] + kind["waiting"]))
    yield from output.listing("Failures", columns, ordered, "Nothing has failed.")
    if len(kinds) >= MOST_KINDS:
        yield output.styled(f"There may be more than {amount(MOST_KINDS)} kinds.", "dim")


def _count(kind: Mapping[str, Any], state: str) -> str:
    """Return the number of jobs; with a plus if they were counted only up to it."""
    return f"{amount(kind[state])}{'+' if kind[state] >= MOST_JOBS else ''}"
