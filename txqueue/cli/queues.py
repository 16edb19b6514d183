"""The commands that act on queues and nodes, and those that show limits and the acts of
operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar

import click

from txqueue.cli import output
from txqueue.cli.jobs import NUMBER
from txqueue.cli.options import Finite, GlobalOptions, command, known_names, limited, together
from txqueue.cli.source import act_on, first, operate, read, read_database
from txqueue.errors import AdminRefused
from txqueue.model.humanize import counted, plain
from txqueue.model.operator_acts import undone_text
from txqueue.policy.findings.status import LIMITS
from txqueue.policy.pagination import read_document

if TYPE_CHECKING:
    from txqueue.admin import Admin


@command()
def limits(options: GlobalOptions) -> None:
    """Show pauses and limits.

    Examples:
        limits
        limits --json
    """
    from txqueue.store.reads.queue_state import about_controls

    controls = read(options, about_controls, lambda admin: admin.controls())
    empty = "Nothing is paused or limited."
    output.show_list(options, {"limits": controls}, "Limits", _LIMITS, empty)


@command()
@click.option("--subject", help="Only acts on this subject, such as 'queue mail' or 'job 7'.")
@limited()
def actions(options: GlobalOptions, subject: str | None, limit: int) -> None:
    """Show which operator did what and when, the latest first.

    Examples:
        actions --subject 'queue mail'
    """
    from txqueue.store.reads.job_details import about_actions

    acts = read(
        options,
        lambda schema: about_actions(schema, None, limit, subject),
        lambda admin: first(admin.actions(subject), limit),
    )
    empty = "No operator has done anything."
    output.show_list(options, {"actions": acts}, "Acts of operators", _ACTS, empty)


@command()
@click.argument("acts", metavar="ACT...", nargs=-1, required=True, type=NUMBER)
def undo(options: GlobalOptions, acts: Sequence[int]) -> None:
    """Take back acts of the last hour, the latest first.

    It takes back a pause, a resume, a limit, and what cancel, priority, move, reschedule or a
    discard changed of jobs that have neither run nor been changed since; it counts the others by
    reason.

    Examples:
        undo 12
        undo 14 13 12
    """
    told: list[tuple[int, list[int], dict[str, int]]] = []

    async def undo_each(admin: Admin) -> AdminRefused | None:
        for act in sorted(acts, reverse=True):
            try:
                told.append((act, *await admin.undo(act)))
            except AdminRefused as error:
                return error
        return None

    def lines() -> output.Lines:
        for act, undone, kept in told:
            yield output.styled(undone_text(act, undone, kept))
            for reason, jobs in kept.items():
                yield output.styled(f"{counted(jobs, 'job')} left unchanged: {reason}.", "yellow")

    refusal = operate(options, undo_each)
    if told:
        kept = sum((Counter(each) for *_, each in told), Counter[str]())
        undone = [job_id for _, ids, _ in told for job_id in ids]
        numbers = [act for act, *_ in told]
        output.show(options, {"acts": numbers, "undone": undone, "kept": kept}, lines)
    if refusal is not None:
        raise refusal


def _limit(name: str) -> Callable[[Mapping[str, Any]], str | None]:
    """Return what makes the cell of a limit; none for the value that limits nothing."""
    return lambda row: None if row[name] in (None, _USUAL.get(name)) else f"{row[name]:g}"


def _stop(row: Mapping[str, Any]) -> Any:
    """Return that nothing of it starts, and for how long if a handler raised Throttled."""
    if row["is_paused"]:
        return output.styled("paused", "bold yellow")
    return row["held_until"] and f"throttled until {output.local_time(row['held_until'])}"


def _details(act: Mapping[str, Any]) -> str:
    """Return the details of an act, without job numbers, which only --json shows."""
    return ", ".join(
        f"{name.replace('_', ' ')} {' '.join(value) if isinstance(value, list) else value}"
        for name, value in act["detail"].items()
        if name != "jobs" and (value or name in ("priority", "reserve"))
    )


_USUAL = {"burst": 1, "share": 1, "reserve": 0}
_LIMITS: output.Columns = {
    "kind": "kind",
    "key": "key",
    "paused": _stop,
    ">at a time": _limit("concurrency"),
    ">a second": _limit("rate"),
    ">burst": _limit("burst"),
    ">share": _limit("share"),
    ">reserve": _limit("reserve"),
    ">backlog": _limit("backlog"),
}
_ACTS: output.Columns = {
    ">act": "action_id",
    "when": lambda act: output.local_time(act["at"]),
    "who": "who",
    "did": "what",
    "to": "subject",
    "how": _details,
}


T = TypeVar("T")

KINDS = ("queue", "group", "tenant")
# What limits are.
_COUNT, _POSITIVE = click.IntRange(1), Finite(0, min_open=True)
_PART, _LIMIT = Finite(0, 1, max_open=True), click.Choice((*LIMITS, "all"))
# Seconds between looks at a draining node; what stands for one whose row is gone.
PAUSE = 1
_REMOVED: Mapping[str, Any] = {"state": "removed", "jobs": 0}


def _one_of_three(context: click.Context, _: click.Parameter, queue: str | None) -> str | None:
    """Check that exactly one queue, group or tenant is named."""
    names = [queue, context.params.get("group"), context.params.get("tenant")]
    if sum(name is not None for name in names) != 1:
        raise click.UsageError("name one queue, or one --group or --tenant", context)
    return queue


# A command's parameters that name a queue, a group or a tenant.
_held = together(
    click.argument(
        "queue", required=False, callback=_one_of_three, shell_complete=known_names("queue")
    ),
    click.option("--group", metavar="KEY", is_eager=True, help="A group instead of a queue."),
    click.option("--tenant", metavar="KEY", is_eager=True, help="A tenant instead of a queue."),
)


@command()
@_held
def pause(options: GlobalOptions, /, **names: str | None) -> None:
    """Pause a queue until it is resumed.

    Or a group or a tenant; running jobs continue.

    Examples:
        pause mail
        pause --tenant acme
    """
    _switch(options, names, "pause")


@command()
@_held
def resume(options: GlobalOptions, /, **names: str | None) -> None:
    """Resume a paused queue, group or tenant.

    Examples:
        resume mail
        resume --tenant acme
    """
    _switch(options, names, "resume")


@command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("key")
@click.option("--concurrency", type=_COUNT, help="Jobs that may run at a time.")
@click.option("--rate", type=_POSITIVE, metavar="JOBS/S", help="Jobs that may start in a second.")
@click.option("--burst", type=_COUNT, help="Jobs that may start at once, with a rate.")
@click.option(
    "--share", type=_POSITIVE, help="A tenant's share relative to other tenants; default 1."
)
@click.option(
    "--reserve", type=_PART, help="The part of capacity kept for priorities from 7, as in 0.2."
)
@click.option(
    "--backlog", type=_COUNT, help="Waiting and ready jobs a queue may have; more are refused."
)
@click.option(
    "--clear", "cleared", multiple=True, type=_LIMIT, help="A limit to remove; repeatable."
)
def limit(
    options: GlobalOptions, /, kind: str, key: str, cleared: tuple[str, ...], **limits: float | None
) -> None:
    """Limit a queue, a group or a tenant.

    Limits not named stay as they are.

    Examples:
        limit queue mail --concurrency 20 --rate 5
        limit tenant acme --share 3
        limit queue mail --clear rate
    """
    lifted = LIMITS if "all" in cleared else cleared
    if not lifted and all(value is None for value in limits.values()):
        raise click.UsageError("say what to limit, such as --concurrency 5, or what to --clear")
    named = {"kind": kind, "key": key, "cleared": ",".join(lifted) or None, **limits}
    arguments: Any = {name: value for name, value in named.items() if value is not None}
    answer = _act(options, kind, key, lambda admin: admin.act("set_limit", **arguments))
    control = read_document(answer["control"])
    document = control or {"kind": kind, "key": key, "is_paused": False}
    output.say(options, document, f"{kind.capitalize()} {key} has {_limits(control)}.")
    output.note_undo(options, answer.get("act"))


@command()
@click.argument("name", metavar="NODE", shell_complete=known_names("node"))
@click.option("--wait", is_flag=True, help="Wait until it has no jobs, and show how many it has.")
def drain(options: GlobalOptions, /, name: str, *, wait: bool) -> int:
    """Drain a node: it accepts no more jobs.

    It passes on unstarted ones, and finishes running ones.

    Examples:
        drain node-1
        drain node-1 --wait
    """
    _switch_node(options, name, "drain_node", "draining")
    return 0 if not wait or _is_emptied(options, name) else 1


@command()
@click.argument("name", metavar="NODE", shell_complete=known_names("node"))
def undrain(options: GlobalOptions, name: str) -> None:
    """Let a draining node accept jobs again.

    Examples:
        undrain node-1
    """
    _switch_node(options, name, "undrain_node", "alive")


@command()
@click.argument("work_type", metavar="TYPE", shell_complete=known_names("work_type"))
def release(options: GlobalOptions, work_type: str) -> None:
    """Let a work type go on that the deploy guard holds.

    The same failures do not hold it again.

    Examples:
        release mail.send
    """
    named = {"work_type": work_type}
    act_on(options, "release_type", f"Type {work_type}", named, **named)


def _is_emptied(options: GlobalOptions, name: str) -> bool:
    """Wait until a draining node has no jobs; return False if it accepts jobs again meanwhile."""
    from txqueue.store.reads.queue_state import about_nodes

    left = None
    while True:
        node = next(iter(read_database(options, about_nodes, name=name)), _REMOVED)
        if node["state"] == "alive" or not node["jobs"]:
            break
        if node["jobs"] != left:
            left = node["jobs"]
            output.note(options, f"{counted(left, 'job')} left on node {name}.")
        sleep(PAUSE)
    is_emptied = bool(node["state"] != "alive")
    ends = "has no jobs left" if is_emptied else "accepts jobs again: another operator undrained it"
    output.note(options, f"Node {name} {ends}.")
    return is_emptied


def _switch_node(options: GlobalOptions, name: str, act: str, state: str) -> None:
    act_on(options, act, f"Node {name}", {"node": name, "state": state}, name=name)


def _switch(options: GlobalOptions, names: Mapping[str, str | None], act: str) -> None:
    [(kind, key)] = [(kind, key) for kind, key in names.items() if key is not None]
    answer = _act(options, kind, key, lambda admin: admin.act(act, kind=kind, key=key))
    document = {"kind": kind, "key": key, "is_paused": act == "pause", **answer}
    output.show_act(options, act, f"{kind.capitalize()} {key}", document)


def _act(options: GlobalOptions, kind: str, key: str, act: Callable[[Admin], Awaitable[T]]) -> T:
    """Let a node act on a queue, group or tenant; warn if the name may be a misspelt one."""

    async def warned(admin: Admin) -> tuple[str | None, T]:
        return await _warning(admin, kind, key), await act(admin)

    warning, answer = operate(options, warned)
    if warning is not None:
        click.echo(f"warning: {plain(warning)}", err=True)
    return answer


async def _warning(admin: Admin, kind: str, key: str) -> str | None:
    """Return what is odd about a name before the act, which makes it known; None if nothing is."""
    from txqueue.policy.findings.status import unfamiliar

    named: dict[str, Any] = {kind: key}
    try:
        known = {row["key"] for row in await admin.controls() if row["kind"] == kind}
        if kind == "queue":
            known |= {row["queue"] for row in await admin.queues()}
        if key in known or (await admin.jobs_page(limit=1, **named)).jobs:
            return None
    except AdminRefused:
        return None
    return unfamiliar(kind, key, known)


def _limits(control: Mapping[str, Any] | None) -> str:
    """Return the limits in force in one line."""
    limits = [f"{name} {text}" for name in LIMITS if control and (text := _limit(name)(control))]
    paused = " and is paused" if control and control["is_paused"] else ""
    return (", ".join(limits) or "no limit") + paused
