"""``txqueue enqueue``: enqueues one job, or the same one many times."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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

__all__ = ["enqueue", "is_new", "written_rows"]

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
    with open_session(options) as session, session.transaction():
        ids = _put(session, element, count)
        rows = written_rows(session, ids)
    new = ids if rows is None else [job_id for job_id in ids if is_new(rows, job_id)]
    document = {"job_ids": ids, "new_ids": None if rows is None else sorted(set(new))}
    say(options, document, _told(ids, new, rows))
    if rows and (row := rows.get(ids[0])) and row["waiting_for"] == "type":
        note(
            options,
            f"No node has published {work_type} yet: the job waits for a node that has it.",
        )


def written_rows(session: Session, job_ids: Sequence[int]) -> dict[int, dict[str, Any]] | None:
    """Return which jobs the open transaction has enqueued or changed, and what these wait for.

    None if this role may enqueue but not read jobs.
    """
    table = f"{session.schema}.job"
    if not session.value("select has_table_privilege(%s, 'select')", (table,)):
        return None
    # The moment of a transaction is also that of the jobs which it enqueues.
    sql = (
        "select job_id, waiting_for, enqueued_at = now() as is_new,"
        f" xmin = pg_current_xact_id()::xid as is_changed from {table} where job_id = any(%s)"
    )
    return {row["job_id"]: row for row in session.dicts(sql, (list(set(job_ids)),))}


def is_new(rows: Mapping[int, Mapping[str, Any]], job_id: int) -> bool:
    """Tell whether a job did not exist before; one of those remembered by a key may be gone."""
    return job_id in rows and bool(rows[job_id]["is_new"])


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


def _told(ids: list[int], new: list[int], rows: dict[int, dict[str, Any]] | None) -> str:
    """Return what was enqueued; all jobs of one command have the same unique key, if any."""
    if not new:
        is_changed = bool(rows and rows.get(ids[0], {}).get("is_changed"))
        change = "it has the new payload and options now" if is_changed else "no other is enqueued"
        return f"Job {ids[0]} has this unique key: {change}."
    if len(distinct := sorted(set(new))) == 1:
        others = f": it has the unique key of all {amount(len(ids))}" if len(ids) > 1 else ""
        return f"Enqueued job {distinct[0]}{others}."
    listed = ", ".join(map(str, new)) if len(new) <= LISTED else f"{new[0]} to {new[-1]}"
    return f"Enqueued {amount(len(new))} jobs: {listed}."
