"""The commands that act on queues and nodes: through a node, which writes down who did it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import show, styled
from txqueue.cli.source import acted
from txqueue.policy.status import LIMITS

if TYPE_CHECKING:
    from rich.console import RenderableType


__all__ = ["drain", "limit", "pause", "resume", "undrain"]

KINDS = ("queue", "group", "tenant")


def _one_of_three(context: click.Context, _: click.Parameter, queue: str | None) -> str | None:
    """Make sure that a queue is named, or a group or a tenant instead."""
    named = [queue, context.params.get("group"), context.params.get("tenant")]
    if sum(name is not None for name in named) != 1:
        raise click.UsageError("name one queue, or one --group or --tenant", context)
    return queue


def _held(function: Any) -> Any:
    """Give a command the words by which a queue, a group or a tenant is named."""
    for decorate in (
        click.option("--tenant", metavar="KEY", is_eager=True, help="A tenant instead of a queue."),
        click.option("--group", metavar="KEY", is_eager=True, help="A group instead of a queue."),
        click.argument("queue", required=False, callback=_one_of_three),
    ):
        function = decorate(function)
    return function


@click.command(cls=Command, short_help="Start no job of a queue until it is resumed.")
@_held
@click.pass_obj
def pause(options: GlobalOptions, /, **named: str | None) -> None:
    """Start no job of a QUEUE, or of a group or tenant, until it is resumed; what runs goes on."""
    kind, key = _which(named)
    changed = acted(options, lambda admin: admin.pause(key, kind))
    said = "is paused" if changed else "was paused already"
    _tell(options, {"kind": kind, "key": key, "is_paused": True, "changed": changed}, said)


@click.command(cls=Command, short_help="Start jobs of a paused queue again.")
@_held
@click.pass_obj
def resume(options: GlobalOptions, /, **named: str | None) -> None:
    """Start jobs of a paused QUEUE, or of a group or tenant, again."""
    kind, key = _which(named)
    changed = acted(options, lambda admin: admin.resume(key, kind))
    said = "goes on" if changed else "was not paused"
    _tell(options, {"kind": kind, "key": key, "is_paused": False, "changed": changed}, said)


@click.command(cls=Command, short_help="Limit a queue, a group or a tenant.")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("key")
@click.option("--concurrency", type=click.IntRange(1), help="Jobs that may run at a time.")
@click.option("--rate", type=float, metavar="JOBS/S", help="Jobs that may start in a second.")
@click.option("--burst", type=click.IntRange(1), help="Jobs that may start at once, with a rate.")
@click.option("--share", type=float, help="A tenant's part, compared with others'; 1 is usual.")
@click.option(
    "--reserve", type=float, help="The part of capacity kept for priorities from 7, as in 0.2."
)
@click.option("--backlog", type=click.IntRange(1), help="Ready jobs of a queue; more are refused.")
@click.option(
    "--clear", "cleared", multiple=True, type=click.Choice((*LIMITS, "all")), help="Lift a limit."
)
@click.pass_obj
def limit(
    options: GlobalOptions, /, kind: str, key: str, cleared: tuple[str, ...], **limits: float | None
) -> None:
    """Limit a queue, a group or a tenant while all run; what is not named stays as it is."""
    lifted = LIMITS if "all" in cleared else cleared
    if not lifted and all(value is None for value in limits.values()):
        raise click.UsageError("say what to limit, such as --concurrency 5, or what to --clear")
    control = acted(options, lambda admin: admin.set_limit(key, kind, cleared=lifted, **limits))
    document = control or {"kind": kind, "key": key, "is_paused": False}
    _tell(options, document, f"has {_limits(control)}")


@click.command(cls=Command, short_help="Have a node take nothing more.")
@click.argument("name", metavar="NODE")
@click.pass_obj
def drain(options: GlobalOptions, name: str) -> None:
    """Have a NODE take nothing more and pass on what it has not started; what runs goes on."""
    changed = acted(options, lambda admin: admin.drain(name))
    document = {"node": name, "state": "draining", "changed": changed}
    said = (
        "drains; undrain it, or start it anew, to have it take jobs"
        if changed
        else "drains already"
    )
    show(options, document, lambda: iter([styled(f"Node {name} {said}.")]))


@click.command(cls=Command, short_help="Have a draining node take jobs again.")
@click.argument("name", metavar="NODE")
@click.pass_obj
def undrain(options: GlobalOptions, name: str) -> None:
    """Have a draining NODE take jobs again."""
    changed = acted(options, lambda admin: admin.undrain(name))
    document = {"node": name, "state": "alive", "changed": changed}
    said = "takes jobs again" if changed else "was not draining"
    show(options, document, lambda: iter([styled(f"Node {name} {said}.")]))


def _which(named: Mapping[str, str | None]) -> tuple[str, str]:
    ((kind, key),) = ((kind, key) for kind, key in named.items() if key is not None)
    return kind, key


def _tell(options: GlobalOptions, document: Mapping[str, Any], said: str) -> None:
    def lines() -> Iterator[RenderableType]:
        yield styled(f"{document['kind'].capitalize()} {document['key']} {said}.")

    show(options, document, lines)


def _limits(control: Mapping[str, Any] | None) -> str:
    """Say what holds, in one line."""
    usual = {"burst": 1, "share": 1, "reserve": 0}
    held = [
        f"{name} {control[name]:g}"
        for name in LIMITS
        if control and control[name] is not None and control[name] != usual.get(name)
    ]
    paused = " and is paused" if control and control["is_paused"] else ""
    return (", ".join(held) or "no limit") + paused
