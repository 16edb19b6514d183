"""``txqueue nodes``: lists the nodes and their load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import Lines, show, styled, table
from txqueue.cli.source import read
from txqueue.model.humanize import age, amount, duration, joined
from txqueue.policy.facts.node_warnings import by_application, named_versions
from txqueue.policy.facts.status import living_first, worker_state

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["node_table", "nodes"]

_QUEUES_TOLD, _TYPES_TOLD = 20, 100
COLOURS = {"alive": "green", "draining": "yellow", "dead": "bold red"}


@click.command(cls=Command)
@click.pass_obj
def nodes(options: GlobalOptions) -> None:
    """Show the nodes, their hosts and their load."""
    from txqueue.store.reads.queue_state import about_nodes

    known = read(options, about_nodes, lambda admin: admin.nodes())
    show(options, {"nodes": known}, lambda: _tables(known))


def _worker_row(worker: Mapping[str, Any]) -> list[object]:
    return [
        str(worker["pid"]),
        worker_state(worker),
        amount(worker["jobs"]),
        amount(worker["weight"]),
    ]


def node_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the nodes as a table."""
    columns = ["node", "state", "where", ">jobs", ">load", ">lag", "queues", ">heartbeat", ">up"]
    return table("Nodes", columns, (_row(node) for node in living_first(rows)))


def _row(node: Mapping[str, Any]) -> list[object]:
    runs = node["state"] in ("alive", "draining")
    # A node that cannot reach its database reports fewer fields than the database has.
    beat, up = node.get("heartbeat_seconds"), node.get("up_seconds")
    return [
        node["name"],
        styled(node["state"], COLOURS.get(node["state"], "dim")),
        f"{node['hostname']}:{node['pid']}",
        amount(node["jobs"]) if "jobs" in node else "-",
        f"{node['load']:.0%}" if runs else "-",
        _lag(node) if runs else "-",
        joined(node["queues"], most=_QUEUES_TOLD),
        "-" if beat is None else f"{age(beat)} ago",
        age(up) if runs and up is not None else "-",
    ]


def _lag(node: Mapping[str, Any]) -> str:
    """Return the node's reactor lag."""
    lag = node.get("report", {}).get("lag")
    return "-" if lag is None else duration(lag)


def _tables(rows: Sequence[Mapping[str, Any]]) -> Lines:
    if not rows:
        yield styled("No node has ever registered; start one: twistd -n txqueue --app MODULE")
        return
    yield node_table(rows)
    for node in rows:
        if isinstance(node.get("workers"), list):
            yield ""
            yield from _itself(node)
    if running := by_application(rows):
        yield ""
        yield styled(f"Application: {named_versions(running)}", "dim")
    known = sorted({name for node in rows for name in node.get("work_types", ())})
    if known:
        yield ""
        yield styled(f"Work types: {joined(known, most=_TYPES_TOLD)}", "dim")


def _itself(node: Mapping[str, Any]) -> Lines:
    """Yield what a node reports only about itself, to a command that is connected to it."""
    columns = [">process", "state", ">jobs", ">weight"]
    rows = (_worker_row(worker) for worker in node["workers"])
    yield table(f"Workers of {node['name']}", columns, rows)
    if not node["has_lease"]:
        yield styled("Its lease has expired: it starts no jobs until it has renewed it.", "red")
