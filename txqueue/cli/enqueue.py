"""``txqueue enqueue`` and ``repeat``: the options and the payload of a job to enqueue."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from txqueue.cli import options as cli
from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import GlobalOptions, command
from txqueue.cli.output import note, say, show, styled
from txqueue.cli.source import account, archived_row, open_session
from txqueue.errors import InvalidWork
from txqueue.model.enqueue_options import OPTIONS, Option
from txqueue.model.humanize import amount
from txqueue.model.job_policy import UniqueMode
from txqueue.model.operator_acts import signed
from txqueue.model.storable import check_payload

if TYPE_CHECKING:
    from txqueue.store.inquiries.inquiry import Question
    from txqueue.store.inquiries.reader import Session


_MEMBERS: Final = (*(name for name, option in OPTIONS.items() if option.sql is None), "keys")
# How commands take values of a type.
_FORMS: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {},
    float: {"type": cli.SECONDS, "metavar": "TIME"},
    datetime: {"type": cli.Read("when", cli.zoned)},
    bool: {"is_flag": True, "default": None},
    UniqueMode: {"type": click.Choice([mode.value for mode in UniqueMode])},
    Sequence[int]: {"type": click.IntRange(0), "multiple": True, "metavar": "ID"},
}
_HINTS: Final[Mapping[Any, str]] = {
    float: ", such as 90s, 5min, 1h",
    datetime: " (ISO 8601 with an offset)",
    Sequence[int]: "; repeatable",
}


def declared(*names: str) -> cli.Decorator:
    """Give a command options of `enqueue`, as these are declared."""
    return cli.together(*(_declared(name, OPTIONS[name]) for name in names))


def _declared(name: str, option: Option) -> cli.Decorator:
    if name == "tags":
        text = "A tag of the job, to find it by; repeatable."
        how: Any = {"metavar": "NAME=VALUE", "multiple": True, "callback": _read_tags}
        return click.option("--tag", name, help=text, **how)
    flag = name.replace("_", "-")
    # The work type may say True, which False overrules.
    is_pair = option.kind is bool and option.by_class
    flags = f"--{flag}/--no-{flag}" if is_pair else f"--{flag}"
    text = option.about.replace("`", "").removesuffix(".") + _HINTS.get(option.kind, "") + "."
    bounds = option.rule.bounds
    form = {"type": click.IntRange(*bounds)} if bounds else _FORMS[option.kind]
    return click.option(flags, name, help=text, **form)


def _read_tags(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, str] | None:
    """Read tags; the database checks them."""
    pairs = [value.partition("=") for value in values]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        error = f"{wrong[0]!r} has no value; write NAME=VALUE"
        raise click.BadParameter(error, context, parameter)
    tags = {name: value for name, _, value in pairs}
    if len(tags) < len(pairs):
        raise click.BadParameter("a tag is given twice; leave one out", context, parameter)
    return tags or None


def keyless() -> cli.Decorator:
    """Give a command the option for a new job without the keys of its type."""
    return click.option(
        "--no-keys",
        "keys",
        is_flag=True,
        flag_value=False,
        default=True,
        help="With only the group, tenant and unique key given here, none of its type.",
    )


def checked_payload(text: str) -> str:
    """Return the payload's text after a check, unparsed, so that no number changes its form.

    Raises:
        click.UsageError: When the text is not a JSON object.
    """
    try:
        return check_payload(text)
    except InvalidWork as error:
        raise click.UsageError(str(error)) from None


def job_text(work_type: str, payload: str, columns: Mapping[str, Any]) -> str:
    """Return the JSON text of one job as ``enqueue_many()`` takes it."""
    columns = dict(columns)
    terms = {name: columns.pop(name, None) for name in _MEMBERS}
    options = {name: value for name, value in terms.items() if value is not None}
    values = {"work_type": work_type, **columns, "options": options or None}
    rest = json.dumps({name: value for name, value in values.items() if value not in (None, ())})
    return f'{rest[:-1]}, "payload": {payload}}}'


BATCH = 1000
LISTED = 10


@command()
@click.argument("work_type", metavar="TYPE", shell_complete=cli.known_names("work_type"))
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
def enqueue(
    options: GlobalOptions, /, work_type: str, payload: str, count: int, **columns: Any
) -> None:
    """Enqueue a job.

    It is of TYPE, with the JSON object as its payload; - reads it from standard input.

    Examples:
        enqueue shop.SendReceipt '{"order_id": 7}'
        enqueue shop.SendReceipt '{"order_id": 7}' --priority 7 --unique order-7
        enqueue shop.SendReceipt - --count 100
    """
    if columns["after_any_end"] and not columns["after"]:
        raise click.UsageError(
            "--after-any-end says how other jobs must have ended; name them with --after"
        )
    text = checked_payload(sys.stdin.read() if payload == "-" else payload)
    element = job_text(work_type, text, columns)
    ids: list[int] = []
    with open_session(options) as session, session.transaction():
        while (missing := count - len(ids)) > 0:
            ids += session.enqueue_text("[" + ",".join([element] * min(missing, BATCH)) + "]")
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


@command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=NUMBER)
@click.option("--payload", metavar="JSON", help="The payload of the copies, if it is another one.")
def repeat(options: GlobalOptions, ids: Sequence[int], payload: str | None) -> None:
    """Enqueue copies of jobs that have ended.

    A copy has the same payload, or the given one. If a job has not ended, none is enqueued.

    Examples:
        repeat 17
        repeat 17 18 --json
        repeat 17 --payload '{"user_id": 8}'
    """
    with open_session(options) as session:
        calls = [_call(options, session, job_id, payload) for job_id in ids]
        with session.transaction():
            numbers = [int(session.value(call.sql, call.parameters)) for call in calls]
            rows = written_rows(session, numbers)
    repeated = [
        {"job_id": old, "new_id": new, "is_new": None if rows is None else is_new(rows, new)}
        for old, new in zip(ids, numbers, strict=True)
    ]
    texts = (
        f"Job {each['job_id']} is not enqueued again: job {each['new_id']} has its unique key."
        if each["is_new"] is False
        else f"Job {each['job_id']} is enqueued again as job {each['new_id']}."
        for each in repeated
    )
    show(options, {"repeated": repeated}, lambda: map(styled, texts))


def _call(options: GlobalOptions, session: Session, job_id: int, payload: str | None) -> Question:
    """Return the SQL call that repeats a job; for an archived job it carries the job's columns."""
    from txqueue.store.inquiries.jobs import repeat_call
    from txqueue.store.operator_arguments import payload_fits

    is_there = session.rows(f"select from {session.schema}.find_job(%s)", (job_id,))
    archived = None if is_there else archived_row(options, job_id)
    if payload is not None:
        work_type = archived["work_type"] if archived else None
        session.find(payload_fits(session.schema, payload, [job_id], work_type))
    who = signed(account(), options.why)
    return repeat_call(session.schema, job_id, archived, payload, who)
