"""``txqueue failures``: lists failures by kind, and retries, discards or postpones a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import click

from txqueue.cli.options import GlobalOptions, Group
from txqueue.cli.output import Lines, listing, local_time, say, show, styled
from txqueue.cli.source import acted, found
from txqueue.cli.times import Length
from txqueue.model.humanize import amount, counted

__all__ = ["failures"]

MOST_JOBS, MOST_KINDS = 10_000, 1000
"""The view counts the jobs of each kind and state up to the first number, and the kinds up to the
second."""


@click.group(cls=Group, invoke_without_command=True, short_help="Show failures by kind.")
@click.pass_context
def failures(context: click.Context) -> None:
    """Show failed jobs, and jobs that wait for a retry, by kind of error."""
    if context.invoked_subcommand is not None:
        return
    from txqueue.store.reads.history import about_failures

    options: GlobalOptions = context.obj
    kinds = found(options, about_failures, lambda admin: admin.failures())
    show(options, {"failures": kinds}, lambda: _list(kinds))


@failures.command(short_help="Retry all failures of a kind.")
@click.argument("fingerprint")
@click.pass_obj
def retry(options: GlobalOptions, fingerprint: str) -> None:
    """Retry all jobs with this kind of failure now."""
    total = acted(options, lambda admin: admin.retry_failures(fingerprint))
    document = {"fingerprint": fingerprint, "retried": total}
    say(options, document, f"{counted(total, 'job')} to run again.")


@failures.command(short_help="Give up all failures of a kind.")
@click.argument("fingerprint")
@click.pass_obj
def discard(options: GlobalOptions, fingerprint: str) -> None:
    """Turn all failed jobs with this kind of failure into cancelled ones.

    They no longer appear in lists and warnings. Jobs that wait for a retry still get it.
    """
    total = acted(options, lambda admin: admin.discard_failures(fingerprint))
    document = {"fingerprint": fingerprint, "discarded": total}
    say(options, document, f"{counted(total, 'job')} discarded.")


@failures.command(short_help="Postpone all failures of a kind.")
@click.argument("fingerprint")
@click.option("--for", "delay", type=Length(), required=True, help="As in 90s, 5min, 1h, 2d.")
@click.pass_obj
def postpone(options: GlobalOptions, fingerprint: str, delay: timedelta) -> None:
    """Retry all jobs with this kind of failure after a delay."""
    seconds = delay.total_seconds()
    total, until = acted(options, lambda admin: admin.postpone_failures(fingerprint, seconds))
    document = {"fingerprint": fingerprint, "postponed": total, "until": until}
    said = f"{counted(total, 'job')} to run again at {local_time(until)}."
    say(options, document, said)


def _list(kinds: Sequence[Mapping[str, Any]]) -> Lines:
    columns = ["fingerprint", "type", ">failed", ">waiting", "last", ">example", "error"]
    ordered = sorted(kinds, key=lambda kind: -(kind["failed"] + kind["waiting"]))
    yield from listing("Failures", columns, map(_row, ordered), "Nothing has failed.")
    if len(kinds) >= MOST_KINDS:
        yield styled(f"There may be more than {amount(MOST_KINDS)} kinds.", "dim")


def _count(kind: Mapping[str, Any], state: str) -> str:
    """Return the number of jobs; with a plus if they were counted only up to it."""
    return f"{amount(kind[state])}{'+' if kind[state] >= MOST_JOBS else ''}"


def _row(kind: Mapping[str, Any]) -> list[object]:
    return [
        kind["fingerprint"],
        kind["work_type"],
        _count(kind, "failed"),
        _count(kind, "waiting"),
        f"{kind['last_seen'].astimezone():%m-%d %H:%M:%S}",
        str(kind["example"]),
        (kind["error"] or "-")[:200],
    ]
