"""``txqueue enqueue``: enqueues one job, or the same one many times."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.job_options import checked_payload, declared, job_text, keyless
from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import note, say
from txqueue.cli.source import open_session
from txqueue.model.enqueue_options import OPTIONS
from txqueue.model.humanize import amount

if TYPE_CHECKING:
    from txqueue.store.inquiries.reader import Session

__all__ = ["enqueue"]

BATCH = 1000
LISTED = 10


@click.command(cls=Command, short_help="Enqueue a job.")
@click.argument("work_type", metavar="TYPE")
@click.argument("payload", metavar="JSON")
@declared(*OPTIONS)
@keyless()
@click.option(
    "--count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Enqueue this many such jobs.",
)
@click.pass_obj
def enqueue(
    options: GlobalOptions, /, work_type: str, payload: str, count: int, **columns: Any
) -> None:
    """Enqueue a job of TYPE with the JSON object as its payload; - reads it from standard input."""
    _check_together(columns)
    text = checked_payload(sys.stdin.read() if payload == "-" else payload)
    element = job_text(work_type, text, columns)
    with open_session(options) as session:
        with session.transaction():
            ids = _put(session, element, count)
        waits = _waits_for(session, ids[0])
    say(options, {"job_ids": ids}, _enqueued(ids))
    if waits == "type":
        note(
            options,
            f"No node has published {work_type} yet: the job waits for a node that has it.",
        )


def _waits_for(session: Session, job_id: int) -> str | None:
    """Return what a job waits for, unless this role may enqueue but not read jobs."""
    table = f"{session.schema}.job"
    if not session.value("select has_table_privilege(%s, 'select')", (table,)):
        return None
    waits: str | None = session.value(
        f"select waiting_for from {table} where job_id = %s", (job_id,)
    )
    return waits


def _check_together(columns: Mapping[str, Any]) -> None:
    """Refuse an option that has no meaning without another one."""
    if columns["after_any_end"] and not columns["after"]:
        raise click.UsageError(
            "--after-any-end says how other jobs must have ended; name them with --after"
        )


def _put(session: Session, element: str, count: int) -> list[int]:
    ids: list[int] = []
    while (missing := count - len(ids)) > 0:
        ids += session.enqueue_text("[" + ",".join([element] * min(missing, BATCH)) + "]")
    return ids


def _enqueued(ids: list[int]) -> str:
    if len(ids) == 1:
        return f"Enqueued job {ids[0]}."
    listed = ", ".join(map(str, ids)) if len(ids) <= LISTED else f"{ids[0]} to {ids[-1]}"
    return f"Enqueued {amount(len(ids))} jobs: {listed}."
