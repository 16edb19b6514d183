"""``txqueue schedules`` and ``txqueue schedule``: list schedules, add, pause, resume, run and
remove them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import fields_dict

from txqueue.cli import options as cli
from txqueue.cli import output, source
from txqueue.cli.enqueue import checked_payload, declared, job_text, keyless
from txqueue.cli.options import GlobalOptions, Group, command
from txqueue.errors import InvalidSchedule, NotPermitted
from txqueue.model.humanize import age, amount, duration, length_of, state_word
from txqueue.model.operator_acts import signed
from txqueue.model.schedule import MOST_TIMES, CatchUp, Cooldown, Cron, Every, Exists, Schedule

if TYPE_CHECKING:
    from rich.text import Text

    from txqueue.store.inquiries.reader import Session


# A run that starts more seconds after its due time than this is marked as delayed.
LATE = 60.0


@command()
@cli.selecting("work_type", "group", "tenant", what="schedules")
@cli.limited(100)
@cli.valued("--after", "NAME", "Continue after this schedule: the last one of the previous page.")
def schedules(options: GlobalOptions, /, limit: int, **filters: str | None) -> None:
    """List schedules: when each is due, how it ran.

    Examples:
        schedules
        schedules --group acme
    """
    rows, now = dated_schedules(options, filters, limit + 1)
    listed = rows[:limit]
    following = listed[-1]["name"] if len(rows) > limit else None
    output.show(options, {"schedules": listed, "next": following}, lambda: _list(listed, now))
    if not listed:
        source.note_unknown_names(options, filters)
    if following is not None:
        output.note(options, f"More: --after {following}")


def dated_schedules(
    options: GlobalOptions, filters: Mapping[str, str | None], limit: int
) -> tuple[list[dict[str, Any]], datetime]:
    """Return schedules, and the time by the database's clock."""
    from txqueue.store.inquiries.inquiry import together
    from txqueue.store.reads.queue_state import about_clock
    from txqueue.store.reads.schedule_list import about_schedules

    rows, now = source.read_database(
        options, lambda schema: together(about_schedules(schema, filters, limit), about_clock())
    )
    return rows, now


def _list(rows: Sequence[Mapping[str, Any]], now: datetime) -> output.Lines:
    columns: output.Columns = {
        "schedule": "name",
        "when": _timing,
        "type": "work_type",
        "group": "group",
        "next": lambda row: _next(row, now),
        "last": _outcome,
        ">late": _late,
        ">took": output.duration_of("took"),
        ">worst": _worst,
    }
    yield from output.listing("Schedules", columns, rows, "There is no such schedule.")
    for row in rows:
        if row["error"]:
            yield output.styled(f"{row['name']}: {row['error']}", "bold red")


def _timing(row: Mapping[str, Any]) -> str:
    if row["kind"] == "cron":
        text = f"{row['expression']} {row['zone']}"
    else:
        word = "every" if row["kind"] == "every" else "after"
        start = " from the start" if row["since"] == "start" else ""
        text = f"{word} {age(row['seconds'])}{start}"
    sign = "±" if row["kind"] == "every" else "+"
    varies = f" {sign}{duration(row['jitter'])}" if row["jitter"] else ""
    overlap = ", no overlap" if row["overlap"] == "skip" else ""
    return text + varies + overlap + _end(row)


def _end(row: Mapping[str, Any]) -> str:
    times = f", {amount(row['enqueued'])} of {amount(row['times'])} times" if row["times"] else ""
    until = f", until {row['until'].astimezone():%Y-%m-%d %H:%M}" if row["until"] else ""
    return times + until


def _next(row: Mapping[str, Any], now: datetime) -> Text:
    if not row["is_active"]:
        return output.styled("paused", "yellow")
    if row["has_ended"]:
        return output.styled("never again", "dim")
    if not row["has_class"]:
        return output.styled("no node has its class", "bold red")
    if row["next_due"] is None:
        return output.styled(
            "when it has ended" if row["kind"] == "cooldown" else "to be computed", "dim"
        )
    seconds = (row["next_due"] - now).total_seconds()
    if seconds < -LATE:
        return output.styled(f"{age(-seconds)} overdue", "bold red")
    return output.styled(f"in {age(seconds)}")


def _outcome(row: Mapping[str, Any]) -> Text:
    outcome = row["outcome"] or "-"
    failed = f" ({amount(row['failed'])} of {row['runs']} failed)" if row["failed"] else ""
    return output.job_state(outcome, state_word(outcome) + failed)


def _worst(row: Mapping[str, Any]) -> str:
    if row["latest"] is None:
        return "-"
    return f"{duration(row['latest'])} late, took {duration(row['slowest'] or 0)}"


def _late(row: Mapping[str, Any]) -> Text | None:
    seconds = row["late"]
    if seconds is None:
        return None
    return output.styled(duration(seconds), "bold red" if seconds > LATE else "")


_RUNS: output.Columns = {
    "due": lambda row: output.local_time(row["due"]),
    "schedule": "name",
    "group": "group",
    ">job": "job_id",
    "outcome": lambda row: output.job_state(row["outcome"] or "-"),
    ">late": _late,
    ">took": output.duration_of("took"),
    "error": "error",
}


# The options of enqueue that a schedule's jobs can have.
COLUMNS = ("queue", "priority", "weight", "group", "tenant", "tags")
_KINDS: Final[Mapping[str, Any]] = {"every": Every, "cooldown": Cooldown, "cron": Cron}
_TERMS: Final = ("tz", "jitter", "catch_up", "overlap", "since", "until", "times")


def length_or_part(text: str) -> timedelta | float:
    """Read a length of time, or a percentage as a fraction."""
    if re.fullmatch(r"\d+(\.\d+)?%", text):
        return float(text[:-1]) / 100
    try:
        return length_of(text)
    except ValueError as error:
        raise ValueError(f"{error}, or 10% of the period") from None


def _choice(flag: str, choices: Sequence[str], text: str) -> cli.Decorator:
    return click.option(flag, type=click.Choice(choices), help=text)


# When a schedule is due, for the commands that say so.
_timed = cli.together(
    click.option("--every", type=cli.LENGTH, help="At even intervals, such as 90s, 5min, 2h."),
    click.option("--cooldown", type=cli.LENGTH, help="This long after the last job has ended."),
    cli.valued("--cron", "EXPR", "A cron expression, such as '0 3 * * *'."),
    cli.valued("--tz", "ZONE", "The time zone of --cron.  [default: UTC]"),
    click.option(
        "--jitter", type=cli.Read("length", length_or_part), help="At random: 4s, or 10%."
    ),
    _choice("--catch-up", [*map(str, CatchUp)], "For missed moments.  [default: skip]"),
    _choice("--overlap", ["allow", "skip"], "Whether its jobs may overlap.  [default: allow]"),
    _choice("--since", ["start", "end"], "From where --cooldown counts.  [default: end]"),
    cli.moment_option("--until", "until", "When it ends; in UTC without an offset."),
    click.option("--times", type=click.IntRange(1, MOST_TIMES), help="How many jobs in all."),
)


@click.group(cls=Group, no_args_is_help=False)
def schedule() -> None:
    """Add schedules, pause, resume or remove them, or run one now.

    Examples:
        schedule add nightly shop.Report '{}' --cron '0 3 * * *'
        schedule runs
    """


@command(within=schedule)
@click.argument("name")
@click.argument("work_type", metavar="TYPE", shell_complete=cli.known_names("work_type"))
@click.argument("payload", metavar="JSON")
@_timed
@click.option(
    "--only-if",
    nargs=3,
    metavar="TABLE COLUMN VALUE",
    help="Only while the table or view has such a row.",
)
@declared(*COLUMNS)
@keyless()
def add(
    options: GlobalOptions,
    /,
    name: str,
    work_type: str,
    payload: str,
    only_if: Sequence[str] | None,
    **choices: Any,
) -> None:
    """Add a schedule that enqueues a job repeatedly.

    The job is of TYPE, with the JSON object as its payload.

    Examples:
        schedule add sync shop.Sync '{}' --every 5min
        schedule add nightly shop.Report '{}' --cron '0 3 * * *' --tz Europe/Berlin
    """
    columns = {key: choices[key] for key in (*COLUMNS, "keys")}
    job = job_text(work_type, checked_payload(payload), columns)
    from txqueue.store.schedules import put_call

    condition = Exists(*only_if) if only_if else None
    when = _chosen_schedule(choices)
    with source.open_session(options) as session:
        who = signed(source.account(), options.why)
        call = put_call(session.schema, name, job, when=when, only_if=condition, who=who)
        changed = bool(session.value(*call))
        is_unknown = _is_unknown(session, work_type)
    text = "is there" if changed else "was there already"
    output.say(options, {"name": name, "changed": changed}, f"Schedule {name} {text}.")
    if is_unknown:
        output.note(
            options, f"No node has published {work_type} yet: its jobs wait for a node that has it."
        )


def _is_unknown(session: Session, work_type: str) -> bool:
    sql = f"select 1 from {session.schema}.work_type where work_type = %s"
    # A role may have the right to this act alone.
    with suppress(NotPermitted):
        return not session.rows(sql, (work_type,))
    return False


def _chosen_schedule(choices: Mapping[str, Any]) -> Schedule:
    [kind, *more] = [name for name in _KINDS if choices[name] is not None] or [""]
    if more or not kind:
        raise click.UsageError("say when: one of --every, --cooldown and --cron")
    terms = {name: choices[name] for name in _TERMS if choices[name] is not None}
    if foreign := [name for name in terms if name not in fields_dict(_KINDS[kind])]:
        flag = foreign[0].replace("_", "-")
        raise click.UsageError(f"--{flag} has no meaning for --{kind}: leave --{flag} out")
    try:
        schedule: Schedule = _KINDS[kind](choices[kind], **terms)
    except InvalidSchedule as error:
        raise click.UsageError(str(error)) from None
    return schedule


@command(within=schedule)
@click.argument("name")
@_timed
def edit(options: GlobalOptions, /, name: str, **choices: Any) -> None:
    """Replace the times of a schedule; its work stays.

    All times are replaced: an option that is left out gets its default.

    Examples:
        schedule edit sync --every 1h
    """
    when = _chosen_schedule(choices)
    changed = source.operate(options, lambda admin: admin.edit_schedule(name, when))
    document = {"name": name, "changed": changed}
    output.show_act(options, "edit_schedule", f"Schedule {name}", document)


@command(within=schedule)
@click.argument("name")
def pause(options: GlobalOptions, name: str) -> None:
    """Pause a schedule until it is resumed.

    A job that was already enqueued still runs.

    Examples:
        schedule pause sync
    """
    _act(options, "pause_schedule", name)


@command(within=schedule)
@click.argument("name")
def resume(options: GlobalOptions, name: str) -> None:
    """Resume a schedule from its next moment on.

    Examples:
        schedule resume sync
    """
    _act(options, "resume_schedule", name)


@command(within=schedule)
@click.argument("name")
def remove(options: GlobalOptions, name: str) -> None:
    """Remove a schedule; its jobs stay.

    Examples:
        schedule remove sync
    """
    _act(options, "remove_schedule", name)


@command(name="run-now", within=schedule)
@click.argument("name")
def run_now(options: GlobalOptions, name: str) -> None:
    """Enqueue a schedule's job now.

    Even if the schedule is paused; its next moment does not change.

    Examples:
        schedule run-now sync
    """
    ran = source.operate(options, lambda admin: admin.run_schedule(name))
    document = {"name": name, "job_id": ran}
    output.say(options, document, f"Job {ran} of schedule {name} is enqueued.")


@command(within=schedule)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--group", help="Only of schedules of this group, whatever their types.")
@click.option(
    "--late",
    type=cli.Finite(0),
    metavar="SECONDS",
    help="Only runs that started at least this late.",
)
@click.option(
    "--took", type=cli.Finite(0), metavar="SECONDS", help="Only runs that took at least this long."
)
@cli.limited()
def runs(options: GlobalOptions, /, names: Sequence[str], **chosen: Any) -> None:
    """Show the last runs, the latest first.

    Examples:
        schedule runs sync
        schedule runs --late 60
    """
    from txqueue.store.reads.schedule_list import about_scheduled_runs

    rows = source.read_database(options, about_scheduled_runs, names=names, **chosen)
    is_by_name = not (chosen["group"] or chosen["late"] or chosen["took"])
    never = not rows and is_by_name and len(names) == 1
    none = _why_none(options, names[0]) if never else "No such run."
    output.show_list(options, {"runs": rows}, "Runs", _RUNS, none)


def _why_none(options: GlobalOptions, name: str) -> str:
    """Say why a schedule has no run to show: there is none of that name, or it was not due yet."""
    found, now = dated_schedules(options, {"name": name}, 1)
    if not found:
        return "There is no such schedule."
    return f"No run yet; the first is due: {_next(found[0], now)}."


def _act(options: GlobalOptions, act: str, name: str) -> None:
    source.act_on(options, act, f"Schedule {name}", {"name": name}, name=name)
