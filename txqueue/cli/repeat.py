"""``txqueue repeat``: enqueues copies of jobs that have ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.archived_jobs import archived_row
from txqueue.cli.enqueue import is_new, written_rows
from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import show, styled
from txqueue.cli.source import open_session

if TYPE_CHECKING:
    from rich.text import Text

    from txqueue.store.inquiries.reader import Session

__all__ = ["repeat"]

REPEATED = ("work_type", "queue", "priority", "weight", "group", "tenant")


@click.command(cls=Command, short_help="Enqueue copies of jobs that have ended.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=NUMBER)
@click.pass_obj
def repeat(options: GlobalOptions, ids: Sequence[int]) -> None:
    """Enqueue a new job with the same payload for each job that has ended.

    If one of the jobs has not ended, none is enqueued.
    """
    with open_session(options) as session:
        calls = [_call(options, session, job_id) for job_id in ids]
        with session.transaction():
            numbers = [int(session.value(*call)) for call in calls]
            rows = written_rows(session, numbers)
    repeated = [
        {"job_id": old, "new_id": new, "is_new": None if rows is None else is_new(rows, new)}
        for old, new in zip(ids, numbers, strict=True)
    ]
    show(options, {"repeated": repeated}, lambda: map(_line, repeated))


def _call(options: GlobalOptions, session: Session, job_id: int) -> tuple[str, tuple[object, ...]]:
    """Return the SQL call that repeats a job; for an archived job it carries the job's columns."""
    schema = session.schema
    if not session.rows(f"select from {schema}.find_job(%s)", (job_id,)):
        row = archived_row(options, job_id)
        if row is not None:
            columns = json.dumps({name: row[name] for name in REPEATED})
            values = (job_id, columns, row["payload"], row["options"])
            call = (
                f"select {schema}.repeat_archived(its_job_id => %s, columns => %s,"
                " its_payload => %s, its_options => %s, who => '')"
            )
            return call, values
    return f"select {schema}.repeat(%s, '')", (job_id,)


def _line(repeated: Mapping[str, Any]) -> Text:
    old, new = repeated["job_id"], repeated["new_id"]
    if repeated["is_new"] is False:
        return styled(f"Job {old} is not enqueued again: job {new} has its unique key.")
    return styled(f"Job {old} is enqueued again as job {new}.")
