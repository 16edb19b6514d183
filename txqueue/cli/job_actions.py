"""The commands that act on jobs, chosen by number or by filters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, frozen

from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import (
    JOB_COLUMNS,
    Command,
    Decorator,
    GlobalOptions,
    searching,
    selecting,
    together,
)
from txqueue.cli.output import Lines, show, styled
from txqueue.cli.source import acted
from txqueue.errors import AdminRefused
from txqueue.model.humanize import amount

if TYPE_CHECKING:
    from txqueue.admin import Admin
    from txqueue.policy.blockers import Explanation

__all__ = ["cancel", "priority", "retry"]

Act = Callable[["Admin", Sequence[int]], Awaitable[Sequence[list[int]]]]
Explain = Callable[["Admin", Sequence[int]], Awaitable[list[dict[str, Any]]]]
BATCH = 1000
LISTED = 10
# Each reason takes a query.
EXPLAINED = 100


LIVE = ("waiting", "ready", "assigned")
CANCELLABLE = (*LIVE, "failed")
RETRIABLE = ("failed", "cancelled", "waiting")
UNTAKEN = ("waiting", "ready")


@frozen
class Chosen:
    """The jobs that a command acts on: given by number, or all that match filters."""

    ids: Sequence[int]
    filters: Mapping[str, Any]
    fits: Callable[[Mapping[str, Any]], bool]

    async def batches(self, admin: Admin) -> AsyncIterator[list[int]]:
        """Yield the jobs' numbers, some at a time."""
        if self.ids:
            yield list(self.ids)
            return
        batch: list[int] = []
        async for job in admin.jobs(**self.filters):
            if self.fits(job):
                batch.append(job["job_id"])
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch


def _choosing(states: Sequence[str]) -> Decorator:
    """Add the options that choose jobs to a command; --state allows the given states."""
    return together(
        click.argument("ids", metavar="[ID]...", nargs=-1, type=NUMBER),
        click.option("--all", "is_all", is_flag=True, help="All jobs that match these:"),
        selecting(*JOB_COLUMNS, states=states),
        searching(),
    )


@click.command(cls=Command, short_help="End jobs, even running ones; give up failed ones.")
@_choosing(CANCELLABLE)
@click.pass_obj
def cancel(options: GlobalOptions, /, ids: Sequence[int], **given: Any) -> int:
    """End jobs: waiting ones at once, running ones when their node receives the request.

    A coroutine is interrupted; a function in a thread must check job.is_cancelled. Failed jobs
    given by number, or chosen by --state failed, become cancelled.
    """
    states = CANCELLABLE if given["state"] == "failed" else LIVE
    chosen = _chosen(ids, given, lambda job: job["state"] in states)
    words = {
        "cancelled": "cancelled",
        "requested": "held by a node, which ends them",
        "refused": "not cancelled: already done or cancelled, or unknown",
    }

    async def act(admin: Admin, some: Sequence[int]) -> Sequence[list[int]]:
        done = await admin.cancel(some)
        return done.cancelled, done.requested, done.refused

    return _carry_out(options, chosen, act, words)


@click.command(cls=Command, short_help="Run failed or cancelled jobs again.")
@_choosing(RETRIABLE)
@click.pass_obj
def retry(options: GlobalOptions, /, ids: Sequence[int], **given: Any) -> int:
    """Run failed or cancelled jobs again; jobs that wait for a time or a retry run now."""
    if given["is_all"] and given["state"] is None:
        given["state"] = "failed"
    words = {
        "retried": "to run again",
        "refused": "left unchanged",
    }
    chosen = _chosen(ids, given, _is_retriable)
    return _carry_out(
        options=options,
        chosen=chosen,
        act=lambda admin, some: admin.retry(some),
        words=words,
        explain=_reasons,
    )


@click.command(cls=Command, short_help="Give jobs another priority.")
@click.argument("to", metavar="PRIORITY", type=click.IntRange(0, 9))
@_choosing(UNTAKEN)
@click.pass_obj
def priority(options: GlobalOptions, /, to: int, ids: Sequence[int], **given: Any) -> int:
    """Change the PRIORITY of jobs that no node has claimed: 0 to 9; higher runs first."""
    words = {
        "changed": f"of priority {to} now",
        "refused": "left unchanged: claimed by a node, ended or unknown",
    }
    chosen = _chosen(ids, given, lambda job: job["state"] in UNTAKEN)
    return _carry_out(options, chosen, lambda admin, some: admin.set_priority(some, to), words)


def _is_retriable(job: Mapping[str, Any]) -> bool:
    """Tell whether `retry` with filters includes a job: not if it only waits for its time."""
    has_failed = job["waiting_for"] == "time" and job["attempt"] > 0
    return bool(job["state"] != "waiting" or has_failed)


def _chosen(
    ids: Sequence[int], given: Mapping[str, Any], fits: Callable[[Mapping[str, Any]], bool]
) -> Chosen:
    filters = {name: value for name, value in given.items() if name != "is_all"}
    has_filter = any(value is not None for value in filters.values())
    if ids and (given["is_all"] or has_filter):
        raise click.UsageError("give job numbers or --all with filters, not both")
    if not ids and not (given["is_all"] and has_filter):
        raise click.UsageError("give job numbers, or --all with filters")
    return Chosen(ids, filters, fits)


async def _reasons(admin: Admin, refused: Sequence[int]) -> list[dict[str, Any]]:
    """Return why a retry was refused for the first of some jobs."""
    return [asdict(await _refusal(admin, job_id)) for job_id in refused[:EXPLAINED]]


async def _refusal(admin: Admin, job_id: int) -> Explanation:
    from txqueue.policy.blockers import Explanation, explain_refusal

    try:
        return explain_refusal(await admin.explain(job_id))
    except AdminRefused as error:
        return Explanation(
            job_id=job_id, state="", reason="unknown", detail=error.what, remedy=error.remedy
        )


def _carry_out(
    options: GlobalOptions,
    chosen: Chosen,
    act: Act,
    words: Mapping[str, str],
    explain: Explain | None = None,
) -> int:
    """Act on jobs and print the result; return 1 if a job given by number was refused.

    Args:
        options: The global options.
        chosen: The jobs.
        act: Acts on some of the jobs, and returns a list of job numbers for each of `words`.
        words: The possible results: the key of each in JSON, and the text that people read.
        explain: Returns why jobs were refused, for the key ``reasons``; None without reasons.
    """

    async def run(admin: Admin) -> dict[str, list[Any]]:
        sums: dict[str, list[Any]] = {name: [] for name in words}
        async for batch in chosen.batches(admin):
            for name, some in zip(words, await act(admin, batch), strict=True):
                sums[name] += some
        if explain is not None:
            sums["reasons"] = await explain(admin, sums["refused"])
        return sums

    document = acted(options, run)

    def lines() -> Lines:
        for name, said in words.items():
            if document[name]:
                style = "yellow" if name == "refused" else ""
                yield styled(f"{_named(document[name])} {said}.", style)
        for why in document.get("reasons", ())[:LISTED]:
            yield styled(f"Job {why['job_id']}: {why['detail']}; {why['remedy']}.")
        if not any(document.values()):
            yield styled("No such job.")

    show(options, document, lines)
    return int(bool(chosen.ids and document["refused"]))


def _named(ids: Sequence[int]) -> str:
    if len(ids) == 1:
        return f"Job {ids[0]}:"
    listed = f" ({', '.join(map(str, ids))})" if len(ids) <= LISTED else ""
    return f"{amount(len(ids))} jobs{listed}:"
