"""``txqueue jobs``, ``job`` and ``explain``: show jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict

from txqueue.cli.archived_jobs import or_archived
from txqueue.cli.job_details import shown_state, whole_job
from txqueue.cli.options import (
    JOB_COLUMNS,
    Command,
    GlobalOptions,
    limited,
    on_node,
    searching,
    selecting,
)
from txqueue.cli.output import Lines, facts, job_state, listing, note, show, styled
from txqueue.cli.source import read, read_database
from txqueue.cli.times import Length
from txqueue.cli.unknown_names import note_unknown_names
from txqueue.model.humanize import age, amount
from txqueue.policy.blockers import DAMAGE_REMEDY

if TYPE_CHECKING:
    from txqueue.admin import Admin
    from txqueue.policy.blockers import Explanation
    from txqueue.store.reads.job_search import FoundJobs

__all__ = ["explain", "job", "jobs"]

STATES = ("waiting", "ready", "assigned", "done", "failed", "cancelled")
NUMBER = click.IntRange(0, 2**63 - 1)


@click.command(cls=Command)
@selecting(*JOB_COLUMNS, states=STATES)
@on_node()
@searching()
@limited()
@click.option(
    "--after", type=NUMBER, metavar="ID", help="Continue after this job: the previous page's next."
)
@click.option(
    "--running-for",
    type=Length(),
    help="Only jobs running for 10min, 2h or longer, the longest first.",
)
@click.pass_obj
def jobs(
    options: GlobalOptions, /, limit: int, running_for: timedelta | None, **filters: Any
) -> None:
    """List jobs, the newest first."""
    filters["node"] = filters.pop("on_node")
    if running_for is not None:
        if filters["after"] is not None:
            raise click.UsageError("--running-for has no --after: raise --limit")
        filters["running_for"] = running_for.total_seconds()
    from txqueue.store.reads.job_search import about_found

    page = read(
        options,
        lambda schema: about_found(schema, filters, limit, is_bounded=False),
        lambda admin: _listed(admin, filters, limit),
    )
    document = {"jobs": page.jobs, "next": page.next, "searched": page.searched}
    nothing = "No such job." if page.next is None else "No such job so far."
    show(options, document, lambda: _list(page.jobs, page.at, nothing))
    if not page.jobs:
        note_unknown_names(options, filters)
    if page.searched is not None:
        newest = "newest" if filters["after"] is None else "next"
        note(options, f"Searched the {newest} {amount(page.searched)} jobs only.")
    if page.next is not None:
        note(options, f"More: --after {page.next}")


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", type=NUMBER)
@click.pass_obj
def job(options: GlobalOptions, job_id: int) -> None:
    """Show all that is stored about a job."""
    from txqueue.store.reads.job_details import about_archived_job, about_job

    whole = or_archived(
        options,
        job_id,
        lambda: read(
            options, lambda schema: about_job(schema, job_id), lambda admin: admin.job(job_id)
        ),
        lambda row: read_database(options, lambda schema: about_archived_job(schema, row)),
    )
    show(options, whole, lambda: whole_job(whole, whole["at"]))


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", type=NUMBER)
@click.pass_obj
def explain(options: GlobalOptions, job_id: int) -> None:
    """Explain why a job does not run, and what would make it run."""
    from txqueue.policy.blockers import explain_archived
    from txqueue.store.reads.job_details import about_obstacles

    why = or_archived(
        options,
        job_id,
        lambda: read(
            options,
            lambda schema: about_obstacles(schema, job_id),
            lambda admin: admin.explain(job_id),
        ),
        explain_archived,
    )
    show(options, asdict(why), lambda: _reasons(why))


def _reasons(why: Explanation) -> Lines:
    state = job_state(why.state)
    yield facts(
        [("job", str(why.job_id)), ("state", state), ("why", why.detail), ("remedy", why.remedy)]
    )


async def _listed(admin: Admin, filters: Mapping[str, Any], limit: int) -> FoundJobs:
    """Read pages of jobs from a node until the limit is reached, or enough was searched."""
    from txqueue.store.reads.job_search import FoundJobs

    rows: list[dict[str, Any]] = []
    filters_sent = dict(filters)
    after = None if filters_sent["after"] is None else str(filters_sent["after"])
    del filters_sent["after"]
    while True:
        page = await admin.jobs_page(after=after, limit=limit - len(rows), **filters_sent)
        rows += page.jobs
        after = page.next
        if after is None or page.searched or len(rows) >= limit:
            following = None if after is None else int(after)
            return FoundJobs(rows, page.at, following, page.searched)


def _list(rows: Sequence[Mapping[str, Any]], now: datetime, nothing: str) -> Lines:
    columns = [">job", "state", "type", "queue", ">prio", ">runs", "group", "when"]
    yield from listing("Jobs", columns, (_row(row, now) for row in rows), nothing)
    if damaged := [row for row in rows if row.get("damage")]:
        yield ""
        yield from (styled(f"job {row['job_id']}: {row['damage']}", "red") for row in damaged)
        yield styled(f"-> {DAMAGE_REMEDY}")


def _row(row: Mapping[str, Any], now: datetime) -> list[object]:
    return [
        str(row["job_id"]),
        shown_state(row),
        row["work_type"],
        row["queue"],
        str(row["priority"]),
        str(row["attempt"]),
        row["group"] or "-",
        _last_change(row, now),
    ]


def _last_change(row: Mapping[str, Any], now: datetime) -> str:
    """Return since when a job has been in its state, or when it is due."""
    wait = row.get("wait")
    if wait and wait["kind"] != "sleep":
        return f"waits for {age((now - wait['since']).total_seconds())}"
    if row["waiting_for"] == "time":
        return f"due in {age((row['not_before'] - now).total_seconds())}"
    if row["state"] == "assigned" and row["started_at"]:
        return f"runs for {age((now - row['started_at']).total_seconds())}"
    names = {"assigned": "assigned_at", "waiting": "enqueued_at", "ready": "enqueued_at"}
    since = row[names.get(row["state"], "finished_at")]
    return f"{age((now - since).total_seconds())} ago"
