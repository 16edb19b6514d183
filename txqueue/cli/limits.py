"""``txqueue limits`` and ``txqueue actions``: show limits, and the acts of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions, limited
from txqueue.cli.output import Lines, listing, local_time, show, styled
from txqueue.cli.source import read

if TYPE_CHECKING:
    from txqueue.admin import Admin

__all__ = ["actions", "limits"]


@click.command(cls=Command)
@click.pass_obj
def limits(options: GlobalOptions) -> None:
    """Show pauses and limits."""
    from txqueue.store.reads.queue_state import about_controls

    controls = read(options, about_controls, lambda admin: admin.controls())
    show(options, {"limits": controls}, lambda: _limits_table(controls))


@click.command(cls=Command)
@click.option("--subject", help="Only acts on this subject, such as 'queue mail' or 'job 7'.")
@limited()
@click.pass_obj
def actions(options: GlobalOptions, subject: str | None, limit: int) -> None:
    """Show which operator did what and when, the latest first."""
    from txqueue.store.reads.action_log import about_actions

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        acts: list[dict[str, Any]] = []
        async for act in admin.actions(subject):
            acts.append(act)
            if len(acts) == limit:
                break
        return acts

    acts = read(options, lambda schema: about_actions(schema, None, limit, subject), ask)
    show(options, {"actions": acts}, lambda: _acts_table(acts))


def _limits_table(controls: Sequence[Mapping[str, Any]]) -> Lines:
    columns = [
        "kind",
        "key",
        "paused",
        ">at a time",
        ">a second",
        ">burst",
        ">share",
        ">reserve",
        ">backlog",
    ]
    return listing(
        "Limits", columns, (_row(control) for control in controls), "Nothing is paused or limited."
    )


def _row(control: Mapping[str, Any]) -> list[object]:
    names = ("concurrency", "rate", "burst", "share", "reserve", "backlog")
    usual = {"burst": 1, "share": 1, "reserve": 0}
    texts = [
        "-" if control[name] in (None, usual.get(name)) else f"{control[name]:g}" for name in names
    ]
    paused = styled("paused", "bold yellow") if control["is_paused"] else "-"
    return [control["kind"], control["key"], paused, *texts]


def _acts_table(acts: Sequence[Mapping[str, Any]]) -> Lines:
    columns = ["when", "who", "did", "to", "how"]
    rows = ([_time_of(act), act["who"], act["what"], act["subject"], _details(act)] for act in acts)
    return listing("Acts of operators", columns, rows, "No operator has done anything.")


def _time_of(act: Mapping[str, Any]) -> str:
    return local_time(act["at"])


def _details(act: Mapping[str, Any]) -> str:
    """Return the details of an act, without job numbers, which only --json shows."""
    limits = (f"{name} {value}" for name, value in act["detail"].items() if name != "jobs")
    return ", ".join(limits) or "-"
