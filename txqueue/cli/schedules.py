"""``txqueue schedules`` and ``txqueue schedule``: list schedules, add, pause, resume, run and
remove them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.enqueue import checked_payload, declared, job_text, keyless
from txqueue.cli.options import (
    Finite,
    GlobalOptions,
    Group,
    Length,
    command,
    known_names,
    limited,
    moment_option,
    selecting,
    together,
    valued,
)
from txqueue.cli.output import (
    Columns,
    Lines,
    duration_of,
    job_state,
    listing,
    local_time,
    note,
    say,
    show,
    styled,
)
from txqueue.cli.source import account, note_unknown_names, open_session, operate, read_database
from txqueue.errors import InvalidSchedule, NotPermitted
from txqueue.model.humanize import age, amount, duration, state_word
from txqueue.model.operator_acts import ACTS
from txqueue.model.schedule import MOST_TIMES, CatchUp, Cooldown, Cron, Every, Exists, Schedule

if TYPE_CHECKING:
    from rich.text import Text

    from txqueue.store.inquiries.reader import Session


# A run that starts more seconds after its due time than this is marked as delayed.
LATE = 60.0


@command()
@selecting("work_type", "group", "tenant", what="schedules")
@limited(100)
@valued("--after", "NAME", "Continue after this schedule: the last one of the previous page.")
def schedules(options: GlobalOptions, /, limit: int, **filters: str | None) -> None:
    """List schedules: when each is due, how it ran.

    Examples:
        schedules
        schedules --group acme
    """
    rows, now = dated_schedules(options, filters, limit + 1)
    listed = rows[:limit]
    following = listed[-1]["name"] if len(rows) > limit else None
    show(options, {"schedules": listed, "next": following}, lambda: _list(listed, now))
    if not listed:
        note_unknown_names(options, filters)
    if following is not None:
        note(options, f"More: --after {following}")


def dated_schedules(
    options: GlobalOptions, filters: Mapping[str, str | None], limit: int
) -> tuple[list[dict[str, Any]], datetime]:
    """Return schedules, and the time by the database's clock."""
    from txqueue.store.inquiries.inquiry import together
    from txqueue.store.reads.queue_state import about_clock
    from txqueue.store.reads.schedule_list import about_schedules

    rows, now = read_database(
        options, lambda schema: together(about_schedules(schema, filters, limit), about_clock())
    )
    return rows, now


def _list(rows: Sequence[Mapping[str, Any]], now: datetime) -> Lines:
    columns: Columns = {
        "schedule": "name",
        "when": _timing,
        "type": "work_type",
        "group": "group",
        "next": lambda row: _next(row, now),
        "last": _outcome,
        ">late": _late,
        ">took": duration_of("took"),
        ">worst": _worst,
    }
    yield from listing("Schedules", columns, rows, "There is no such schedule.")
    for row in rows:
        if row["error"]:
            yield styled(f"{row['name']}: {row['error']}", "bold red")


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
        return styled("paused", "yellow")
    if row["has_ended"]:
        return styled("never again", "dim")
    if not row["has_class"]:
        return styled("no node has its class", "bold red")
    if row["next_due"] is None:
        return styled("when it has ended" if row["kind"] == "cooldown" else "to be computed", "dim")
    seconds = (row["next_due"] - now).total_seconds()
    if seconds < -LATE:
        return styled(f"{age(-seconds)} overdue", "bold red")
    return styled(f"in {age(seconds)}")


def _outcome(row: Mapping[str, Any]) -> Text:
    outcome = row["outcome"] or "-"
    failed = f" ({amount(row['failed'])} of {row['runs']} failed)" if row["failed"] else ""
    return job_state(outcome, state_word(outcome) + failed)


def _worst(row: Mapping[str, Any]) -> str:
    if row["latest"] is None:
        return "-"
    return f"{duration(row['latest'])} late, took {duration(row['slowest'] or 0)}"


def _late(row: Mapping[str, Any]) -> Text | None:
    seconds = row["late"]
    if seconds is None:
        return None
    return styled(duration(seconds), "bold red" if seconds > LATE else "")


_RUNS: Columns = {
    "due": lambda row: local_time(row["due"]),
    "schedule": "name",
    "group": "group",
    ">job": "job_id",
    "outcome": lambda row: job_state(row["outcome"] or "-"),
    ">late": _late,
    ">took": duration_of("took"),
    "error": "error",
}


# The options of enqueue that a schedule's jobs can have.
COLUMNS = ("queue", "priority", "weight", "group", "tenant", "tags")
# When a schedule is due, for the commands that say so.
_timed = together(
    click.option("--every", type=Length(), help="At even intervals, such as 90s, 5min, 2h."),
    click.option("--cooldown", type=Length(), help="This long after the last job has ended."),
    valued("--cron", "EXPR", "A cron expression, such as '0 3 * * *'."),
    valued("--tz", "ZONE", "The time zone of --cron.  [default: UTC]"),
    click.option(
        "--jitter",
        type=Length(takes_percent=True),
        default="0s",
        help="Random variation: 4s, or 10% of the period.",
    ),
    click.option(
        "--catch-up",
        type=click.Choice([str(choice) for choice in CatchUp]),
        help="What to do about missed moments, except with --cooldown.  [default: skip]",
    ),
    click.option(
        "--overlap",
        type=click.Choice(["allow", "skip"]),
        help="Skip moments at which the last job has not ended, or not.  [default: allow]",
    ),
    click.option(
        "--since",
        type=click.Choice(["start", "end"]),
        help="Whether --cooldown counts from the last job's start or end.  [default: end]",
    ),
    moment_option(
        "--until", "until", "When it ends, such as 2027-01-31T18:00+01:00; UTC without an offset."
    ),
    click.option(
        "--times", type=click.IntRange(1, MOST_TIMES), help="How many jobs it enqueues in all."
    ),
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
@click.argument("work_type", metavar="TYPE", shell_complete=known_names("work_type"))
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
    with open_session(options) as session:
        call = put_call(session.schema, name, job, when=when, only_if=condition, who=account())
        changed = bool(session.value(*call))
        is_unknown = _is_unknown(session, work_type)
    text = "is there" if changed else "was there already"
    say(options, {"name": name, "changed": changed}, f"Schedule {name} {text}.")
    if is_unknown:
        note(
            options, f"No node has published {work_type} yet: its jobs wait for a node that has it."
        )


def _is_unknown(session: Session, work_type: str) -> bool:
    sql = f"select 1 from {session.schema}.work_type where work_type = %s"
    # A role may have the right to this act alone.
    with suppress(NotPermitted):
        return not session.rows(sql, (work_type,))
    return False


def _chosen_schedule(choices: dict[str, Any]) -> Schedule:
    every, cooldown, cron = (choices[key] for key in ("every", "cooldown", "cron"))
    if sum(choice is not None for choice in (every, cooldown, cron)) != 1:
        raise click.UsageError("say when: one of --every, --cooldown and --cron")
    if choices["tz"] and cron is None:
        raise click.UsageError("--tz is the time zone of --cron")
    if choices["catch_up"] and cooldown is not None:
        raise click.UsageError("--cooldown has no missed moments: leave --catch-up out")
    if choices["overlap"] and cooldown is not None:
        raise click.UsageError("jobs of --cooldown never overlap: leave --overlap out")
    if choices["since"] and cooldown is None:
        raise click.UsageError("--since is about --cooldown: other schedules do not depend on jobs")
    jitter, catch_up = choices["jitter"], CatchUp(choices["catch_up"] or "skip")
    ends: dict[str, Any] = {"until": choices["until"], "times": choices["times"]}
    try:
        if cooldown is not None:
            return Cooldown(cooldown, jitter, since=choices["since"] or "end", **ends)
        ends["overlap"] = choices["overlap"] or "allow"
        if every is not None:
            return Every(every, jitter, catch_up, **ends)
        return Cron(cron, choices["tz"] or "UTC", jitter, catch_up, **ends)
    except InvalidSchedule as error:
        raise click.UsageError(str(error)) from None


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
    changed = operate(options, lambda admin: admin.edit_schedule(name, when))
    _tell(options, name, "edit_schedule", changed)


@command(within=schedule)
@click.argument("name")
def pause(options: GlobalOptions, name: str) -> None:
    """Pause a schedule until it is resumed.

    A job that was already enqueued still runs.

    Examples:
        schedule pause sync
    """
    changed = operate(options, lambda admin: admin.pause_schedule(name))
    _tell(options, name, "pause_schedule", changed)


@command(within=schedule)
@click.argument("name")
def resume(options: GlobalOptions, name: str) -> None:
    """Resume a schedule from its next moment on.

    Examples:
        schedule resume sync
    """
    changed = operate(options, lambda admin: admin.resume_schedule(name))
    _tell(options, name, "resume_schedule", changed)


@command(within=schedule)
@click.argument("name")
def remove(options: GlobalOptions, name: str) -> None:
    """Remove a schedule; its jobs stay.

    Examples:
        schedule remove sync
    """
    operate(options, lambda admin: admin.remove_schedule(name))
    _tell(options, name, "remove_schedule", True)


@command(name="run-now", within=schedule)
@click.argument("name")
def run_now(options: GlobalOptions, name: str) -> None:
    """Enqueue a schedule's job now.

    Even if the schedule is paused; its next moment does not change.

    Examples:
        schedule run-now sync
    """
    ran = operate(options, lambda admin: admin.run_schedule(name))
    document = {"name": name, "job_id": ran}
    say(options, document, f"Job {ran} of schedule {name} is enqueued.")


@command(within=schedule)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--group", help="Only of schedules of this group, whatever their types.")
@click.option(
    "--late", type=Finite(0), metavar="SECONDS", help="Only runs that started at least this late."
)
@click.option(
    "--took", type=Finite(0), metavar="SECONDS", help="Only runs that took at least this long."
)
@limited()
def runs(options: GlobalOptions, /, names: Sequence[str], **chosen: Any) -> None:
    """Show the last runs, the latest first.

    Examples:
        schedule runs sync
        schedule runs --late 60
    """
    from txqueue.store.reads.schedule_list import about_scheduled_runs

    rows = read_database(options, about_scheduled_runs, names=names, **chosen)
    is_by_name = not (chosen["group"] or chosen["late"] or chosen["took"])
    never = not rows and is_by_name and len(names) == 1
    none = _why_none(options, names[0]) if never else "No such run."
    show(options, {"runs": rows}, lambda: listing("Runs", _RUNS, rows, none))


def _why_none(options: GlobalOptions, name: str) -> str:
    """Say why a schedule has no run to show: there is none of that name, or it was not due yet."""
    found, now = dated_schedules(options, {"name": name}, 1)
    if not found:
        return "There is no such schedule."
    return f"No run yet; the first is due: {_next(found[0], now)}."


def _tell(options: GlobalOptions, name: str, act: str, changed: bool) -> None:
    document = {"name": name, "changed": changed}
    say(options, document, ACTS[act].told(f"Schedule {name}", is_changed=changed))
