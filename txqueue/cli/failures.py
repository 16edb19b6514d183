"""``txqueue failures``: lists failures by kind, and retries, discards or postpones a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli import output
from txqueue.cli.options import SECONDS, GlobalOptions, Group, command
from txqueue.cli.source import first, operate, read
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
