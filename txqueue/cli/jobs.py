"""``txqueue jobs``, ``job`` and ``explain``: show jobs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict

from txqueue.cli import options as cli
from txqueue.cli import output
from txqueue.cli.options import GlobalOptions, command
from txqueue.cli.source import note_unknown_names, or_archived, read, read_database
from txqueue.model import humanize
from txqueue.model.job_filters import tags_of
from txqueue.policy.findings.reason import DAMAGE_REMEDY

if TYPE_CHECKING:
    from rich.text import Text

    from txqueue.admin import Admin
    from txqueue.policy.findings.explanation import Explanation
    from txqueue.store.reads.job_search import FoundJobs


PARENTS_NAMED = 5
NAME_SHOWN = 40


def shown_state(row: Mapping[str, Any]) -> Text:
    """Return a job's state, with what it waits for."""
    state, reason = row["state"], row["waiting_for"]
    if wait := row.get("wait"):
        reason = (
            f"signal {humanize.cut(wait['signal'], NAME_SHOWN)}" if wait["signal"] else wait["kind"]
        )
    return output.job_state(state, f"{humanize.state_word(state)}: {reason}" if reason else None)


def whole_job(row: Mapping[str, Any], now: datetime) -> output.Lines:
    """Yield the lines about a job, as `about_job` returns it."""
    yield output.facts(_facts(row, now))
    for part in _parts(row, now):
        yield ""
        yield from part


def _parts(row: Mapping[str, Any], now: datetime) -> Iterator[output.Lines]:
    for name in ("payload", "result", "options"):
        if row[name] is not None:
            text = json.dumps(row[name], indent=2, ensure_ascii=False)
            yield _headed(name.capitalize(), text)
    if row["error"]:
        yield _headed("Error", row["error"].rstrip(), "bold red")
    if stages := row.get("stages"):
        yield _stages(stages, now)
    if attempts := row.get("attempts"):
        yield _attempts(attempts, now, is_staged=bool(stages))
        # Of the last one that has a log; --json has those of all.
        for attempt in [attempt for attempt in attempts if attempt["log"]][-1:]:
            yield _headed(f"Log of run {attempt['attempt']}", attempt["log"])
    if row["actions"]:
        columns: output.Columns = {
            "when": lambda act: humanize.moment(act["at"], now),
            "who": "who",
            "did": "what",
        }
        yield output.listing("Acts of operators", columns, row["actions"])


def _headed(title: str, text: str, style: str = "bold") -> output.Lines:
    yield output.styled(title, style)
    yield from map(output.styled, text.splitlines())


def _stages(rows: Sequence[Mapping[str, Any]], now: datetime) -> output.Lines:
    columns: output.Columns = {
        ">stage": "stage",
        "type": "work_type",
        ">runs": output.amount_of("runs"),
        "node": lambda row: row.get("node"),
        "ended": lambda row: humanize.moment(row["ended"], now),
        ">last took": lambda row: _took(row["began"], row["ended"]),
    }
    return output.listing("Earlier stages", columns, rows)


def _attempts(rows: Sequence[Mapping[str, Any]], now: datetime, *, is_staged: bool) -> output.Lines:
    stage: output.Columns = {"stage": "work_type"} if is_staged else {}
    columns: output.Columns = {
        **stage,
        ">run": "attempt",
        "when": lambda row: humanize.moment(row["at"], now),
        "took": lambda row: _took(row["began"], row["at"]),
        "node": "node",
        "class": "error_class",
        "error": lambda row: row["error"].splitlines()[0] if row["error"] else None,
    }
    is_restarted = any(attempt.get("restarted_by") for attempt in rows)
    title = "Failed and restarted runs" if is_restarted else "Failed attempts"
    return output.listing(title, columns, rows)


def _took(began: datetime | None, ended: datetime) -> str | None:
    return None if began is None else humanize.duration((ended - began).total_seconds())


def _facts(row: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, object]]:
    """Yield the facts about a job; None stands for those that it has not."""
    damage, tags, last = row.get("damage"), tags_of(row["options"]), row["actions"][:1]
    yield "job", str(row["job_id"])
    yield "state", shown_state(row).append(" (archived)" if row.get("archived") else "")
    if wait := row.get("wait"):
        yield "waits at", f"step {wait['step']}, since {humanize.moment(wait['since'], now)}"
        yield "until", _moment(wait["until"], now)
    yield "damaged", output.styled(f"{damage}; {DAMAGE_REMEDY}", "red") if damage else None
    for fact, name in _PLAIN_FACTS.items():
        yield fact, row[name]
    yield "tags", ", ".join(f"{name}={humanize.plain(value)}" for name, value in tags.items())
    yield "follows", _parents(row)
    yield "created by", _option(row, "created_by")
    yield "runs", _runs(row)
    yield from _progress(row)
    yield "node", row["node"]
    for name in ("enqueued", "assigned", "started", "finished"):
        yield name, _moment(row[f"{name}_at"], now)
    for act in last:
        yield "last act", f"{act['what']} by {act['who']}, {humanize.moment(act['at'], now)}"
    # A wait says when its step ends.
    is_later = row["not_before"] > row["enqueued_at"] and not wait
    yield "not before", humanize.moment(row["not_before"], now) if is_later else None
    yield "not after", _moment(row["not_after"], now)
    if row["finished_at"] and row["assigned_at"]:
        took = _took(row["assigned_at"], _end_of_run(row))
        waited = _took(row["enqueued_at"], row["assigned_at"])
        yield "took", f"{took}, after {waited} in the queue"


_PLAIN_FACTS = {
    "type": "work_type",
    **{name: name for name in ("queue", "priority", "weight", "group", "tenant")},
}


def _moment(value: datetime | None, now: datetime) -> str | None:
    return None if value is None else humanize.moment(value, now)


def _progress(row: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the progress that a job's handler reported, and that of the job's workset."""
    progress = row.get("progress")
    if isinstance(progress, list) and len(progress) == 3:
        done, total, text = progress
        yield "progress", output.bar(done, total) if total else f"{done:g}"
        yield "", text
    if workset := row.get("workset"):
        ended = workset["done"] + workset["failed"]
        yield f"workset {workset['name']}", output.bar(ended, workset["total"])


def _option(row: Mapping[str, Any], name: str) -> Any:
    options = row["options"]
    return options.get(name) if isinstance(options, dict) else None


def _end_of_run(row: Mapping[str, Any]) -> datetime:
    """Return when a job's last run ended: before its cancellation, if that was after a failure."""
    last = row["attempts"][-1] if row.get("attempts") else None
    is_given_up = row["state"] == "cancelled" and last and last["attempt"] == row["attempt"]
    end: datetime = last["at"] if last and is_given_up else row["finished_at"]
    return end


def _parents(row: Mapping[str, Any]) -> str | None:
    """Return the jobs that a job waits for or waited for, with their outcomes."""
    if not (after := _option(row, "after")):
        return None
    named = isinstance(after, list)
    job_names = humanize.joined([*map(str, after)], PARENTS_NAMED) if named else f"{after} jobs"
    ends = _option(row, "parents")
    counts = [f"{ends[end]} {end}" for end in ends if ends[end]] if isinstance(ends, dict) else []
    return job_names + (f" ({', '.join(counts)})" if counts else "")


def _runs(row: Mapping[str, Any]) -> str:
    most = _option(row, "attempts") or (row["policy"] or {}).get("attempts")
    died = f", {humanize.counted(row['deaths'], 'worker')} died with it" if row["deaths"] else ""
    return humanize.plain(f"{row['attempt']} of {most}" if most else row["attempt"]) + died


STATES = ("waiting", "ready", "assigned", "done", "failed", "cancelled")
NUMBER = click.IntRange(0, 2**63 - 1)


@command()
@cli.selecting(*cli.JOB_COLUMNS, states=STATES)
@cli.on_node()
@cli.searching()
@cli.limited()
@click.option(
    "--after", type=NUMBER, metavar="ID", help="Continue after this job: the previous page's next."
)
@click.option(
    "--running-for",
    type=cli.SECONDS,
    help="Only jobs running for 10min, 2h or longer, the longest first.",
)
def jobs(options: GlobalOptions, /, limit: int, **filters: Any) -> None:
    """List jobs, the newest first.

    Examples:
        jobs --state failed
        jobs --payload order_id=7 --since 2h
    """
    filters["node"] = filters.pop("on_node")
    if None not in (filters["running_for"], filters["after"]):
        raise click.UsageError("--running-for has no --after: raise --limit")
    from txqueue.store.reads.job_search import about_found

    page = read(
        options,
        lambda schema: about_found(schema, filters, limit, is_bounded=False),
        lambda admin: _listed(admin, filters, limit),
    )
    document = {"jobs": page.jobs, "next": page.next, "searched": page.searched}
    nothing = "No such job." if page.next is None else "No such job so far."
    output.show(options, document, lambda: _list(page.jobs, page.at, nothing))
    if not page.jobs:
        note_unknown_names(options, filters)
    if page.searched is not None:
        newest = "newest" if filters["after"] is None else "next"
        output.note(options, f"Searched the {newest} {humanize.amount(page.searched)} jobs only.")
    if page.next is not None:
        output.note(options, f"More: --after {page.next}")


@command()
@click.argument("job_id", metavar="ID", type=NUMBER)
def job(options: GlobalOptions, job_id: int) -> None:
    """Show all that is stored about a job.

    Examples:
        job 17
        job 17 --json
    """
    from txqueue.store.reads.job_details import about_archived_job, about_job

    def tell(row: dict[str, Any]) -> dict[str, Any]:
        return read_database(options, about_archived_job, row)

    whole = or_archived(options, job_id, about_job, tell, lambda admin: admin.job(job_id))
    output.show(options, whole, lambda: whole_job(whole, whole["at"]))


@command()
@click.argument("job_id", metavar="ID", type=NUMBER)
def explain(options: GlobalOptions, job_id: int) -> None:
    """Explain why a job does not run, and what would make it run.

    Examples:
        explain 17
        explain 17 --json
    """
    from txqueue.policy.findings.explanation import explain_archived
    from txqueue.store.reads.job_details import about_obstacles

    def ask(admin: Admin) -> Awaitable[Explanation]:
        return admin.explain(job_id)

    why = or_archived(options, job_id, about_obstacles, explain_archived, ask)
    pairs = ("why", why.detail), ("remedy", why.remedy)
    named = ("job", str(why.job_id)), ("state", output.job_state(why.state))
    output.show(options, asdict(why), lambda: [output.facts([*named, *pairs])])


async def _listed(admin: Admin, filters: Mapping[str, Any], limit: int) -> FoundJobs:
    """Read pages of jobs from a node until the limit is reached, or enough was searched."""
    from txqueue.store.reads.job_search import FoundJobs

    rows: list[dict[str, Any]] = []
    sent = dict(filters)
    while True:
        after = None if sent["after"] is None else str(sent["after"])
        page = await admin.jobs_page(**{**sent, "after": after, "limit": limit - len(rows)})
        rows += page.jobs
        sent["after"] = None if page.next is None else int(page.next)
        if page.next is None or page.searched or len(rows) >= limit:
            return FoundJobs(rows, page.at, sent["after"], page.searched)


def _list(rows: Sequence[Mapping[str, Any]], now: datetime, nothing: str) -> output.Lines:
    columns: output.Columns = {
        ">job": "job_id",
        "state": shown_state,
        "type": "work_type",
        "queue": "queue",
        ">prio": "priority",
        ">runs": "attempt",
        "group": "group",
        "when": lambda row: _last_change(row, now),
    }
    yield from output.listing("Jobs", columns, rows, nothing)
    if damaged := [row for row in rows if row.get("damage")]:
        yield ""
        yield from (
            output.styled(f"job {row['job_id']}: {row['damage']}", "red") for row in damaged
        )
        yield output.styled(f"-> {DAMAGE_REMEDY}")


def _last_change(row: Mapping[str, Any], now: datetime) -> str:
    """Return since when a job has been in its state, or when it is due."""
    wait = row.get("wait")
    if wait and wait["kind"] != "sleep":
        return f"waits for {humanize.age((now - wait['since']).total_seconds())}"
    if row["waiting_for"] == "time":
        return f"due in {humanize.age((row['not_before'] - now).total_seconds())}"
    if row["state"] == "assigned" and row["started_at"]:
        return f"runs for {humanize.age((now - row['started_at']).total_seconds())}"
    names = {"assigned": "assigned_at", "waiting": "enqueued_at", "ready": "enqueued_at"}
    since = row[names.get(row["state"], "finished_at")]
    return f"{humanize.age((now - since).total_seconds())} ago"
