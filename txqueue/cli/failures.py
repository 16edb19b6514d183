"""``txqueue failures``: lists failures by kind, and retries, discards or postpones a kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli import output
from txqueue.cli.options import SECONDS, GlobalOptions, Group, command
from txqueue.cli.source import operate, read
from txqueue.errors import AdminRefused
from txqueue.model.humanize import amount, counted

if TYPE_CHECKING:
    from txqueue.admin import Admin


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

    async def run(admin: Admin) -> dict[str, Any]:
        total = await admin.retry_failures(fingerprint)
        return {"fingerprint": fingerprint, "retried": total}

    document = _acted(options, fingerprint, run)
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

    async def run(admin: Admin) -> dict[str, Any]:
        total, until = await admin.postpone_failures(fingerprint, delay)
        return {"fingerprint": fingerprint, "postponed": total, "until": until}

    document = _acted(options, fingerprint, run)
    when = output.local_time(document["until"])
    _tell(options, document, f"{counted(document['postponed'], 'job')} to run again at {when}.")


def _acted(
    options: GlobalOptions,
    fingerprint: str,
    act: Callable[[Admin], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    """Act on a kind of failure; return the result with the jobs that were refused, and why."""

    async def run(admin: Admin) -> dict[str, Any]:
        began = await _clock(admin, fingerprint)
        done = await act(admin)
        refused = [] if began is None else await _left(admin, fingerprint, began)
        reasons = await output.refusals(admin, "retry", refused)
        return {**done, "refused": refused, "reasons": reasons}

    return operate(options, run)


async def _clock(admin: Admin, fingerprint: str) -> datetime | None:
    """Return the time by the database's clock; None if the node is too old for what follows."""
    try:
        return (await admin.jobs_page(fingerprint=fingerprint, state="failed", limit=1)).at
    except AdminRefused:
        return None


async def _left(admin: Admin, fingerprint: str, until: datetime) -> list[int]:
    """Return the first jobs of a kind that still are as they failed before a moment."""
    from txqueue.policy.findings.explanation import EXPLAINED

    job_ids: list[int] = []
    async for job in admin.jobs(fingerprint=fingerprint, state="failed"):
        if job["finished_at"] <= until:
            job_ids.append(job["job_id"])
        if len(job_ids) == EXPLAINED:
            break
    return job_ids


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
