"""``txqueue enqueue``: enqueues one job, or the same one many times."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions, keyless, tagging
from txqueue.cli.output import note, say
from txqueue.cli.source import opened
from txqueue.cli.times import Length, zoned
from txqueue.model.enqueue_options import OPTIONS
from txqueue.model.humanize import amount
from txqueue.model.payload import find_unstorable
from txqueue.model.work_item import MOST_WEIGHT, UniqueMode

if TYPE_CHECKING:
    from txqueue.store.inquiries.reader import Session

__all__ = ["checked_payload", "enqueue", "job_text"]

MODES = [mode.value for mode in UniqueMode]
MEMBERS = (*(name for name, option in OPTIONS.items() if option.sql is None), "keys")
BATCH = 1000
LISTED = 10


@click.command(cls=Command, short_help="Enqueue a job.")
@click.argument("work_type", metavar="TYPE")
@click.argument("payload", metavar="JSON")
@click.option("--queue", help="The queue, instead of the type's own.")
@click.option("--priority", type=click.IntRange(0, 9), help="0 to 9; higher runs first.")
@click.option(
    "--weight",
    type=click.IntRange(1, MOST_WEIGHT),
    help="The share of a worker's capacity that it takes.",
)
@click.option("--group", help="At most one job of a group runs at a time.")
@click.option("--tenant", help="The job's tenant; tenants take turns.")
@click.option("--attempts", type=click.IntRange(1, 32767), help="How many attempts it gets in all.")
@click.option(
    "--timeout", type=Length(), metavar="TIME", help="Limit of an attempt: 90s, 5min, 1h."
)
@click.option(
    "--not-before",
    callback=zoned,
    metavar="WHEN",
    help="ISO 8601 with an offset, such as ...T12:00:00Z.",
)
@click.option(
    "--not-after",
    callback=zoned,
    metavar="WHEN",
    help="Its rank rises before this time; same format.",
)
@click.option("--unique", metavar="KEY", help="At most one unended job of the type holds this key.")
@click.option(
    "--unique-mode", type=click.Choice(MODES), help="What to do while another job holds the key."
)
@click.option(
    "--as-of",
    callback=zoned,
    metavar="WHEN",
    help="Skip if the key was enqueued as of this time or later.",
)
@click.option(
    "--once-for", type=Length(), metavar="TIME", help="How long the mode once remembers the key."
)
@keyless()
@tagging()
@click.option("--created-by", metavar="NAME", help="The name to record as the one who enqueued it.")
@click.option(
    "--after",
    multiple=True,
    type=click.IntRange(0),
    metavar="ID",
    help="Wait until this job is done.",
)
@click.option(
    "--after-any-end",
    is_flag=True,
    default=None,
    help="Wait until those jobs have ended in any way.",
)
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
    with opened(options) as session:
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


def checked_payload(text: str) -> str:
    """Return the payload's text after a check, unparsed, so that no number changes its form.

    Raises:
        click.UsageError: When the text is not a JSON object.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise click.UsageError(
            f"the payload is not JSON: {error}; quote it for the shell, like '{{\"user_id\": 7}}'"
        ) from None
    if not isinstance(value, dict):
        raise click.UsageError(
            "the payload is not a JSON object; pass the work item's fields, like '{\"user_id\": 7}'"
        )
    if found := find_unstorable(value):
        raise click.UsageError(f"the payload cannot be stored: {found}; leave it out")
    return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it has no {name}")


def job_text(work_type: str, payload: str, columns: Mapping[str, Any]) -> str:
    """Return the JSON text of one job as ``enqueue_many()`` takes it."""
    columns = dict(columns)
    terms = {name: columns.pop(name, None) for name in MEMBERS}
    options = {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in terms.items()
        if value is not None
    }
    given = {"work_type": work_type, **columns, "options": options or None}
    rest = json.dumps({name: value for name, value in given.items() if value not in (None, ())})
    return f'{rest[:-1]}, "payload": {payload}}}'


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
