"""``txqueue nodes``: who runs, where, and how busy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, Options
from txqueue.cli.output import facts, show, styled, table
from txqueue.words import age, amount

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["node_document", "node_table", "nodes"]

COLOURS = {"alive": "green", "draining": "yellow", "dead": "bold red"}


@click.command(cls=Command)
@click.option("--node", "endpoint", metavar="ENDPOINT", help="Ask this node, not the database.")
@click.pass_obj
def nodes(options: Options, endpoint: str | None) -> None:
    """Show the nodes: who runs, where, and how busy."""
    if endpoint is not None:
        _show_node(options, endpoint)
        return
    from txqueue.store.reading import Reader, Session

    with Session(options.chosen_dsn, options.chosen_schema) as session:
        reader = Reader(session)
        found, now = reader.nodes(), reader.now()
    document = {"nodes": [node_document(node, now) for node in found]}
    show(options, document, lambda: _tables(document["nodes"], now))


def _show_node(options: Options, endpoint: str) -> None:
    from txqueue.client.asking import inspect_node
    from txqueue.client.blocking import run_in_reactor
    from txqueue.wire.endpoints import parsed_endpoint

    place = parsed_endpoint(endpoint)
    node = run_in_reactor(lambda reactor: inspect_node(reactor, place))
    show(options, {"nodes": [node]}, lambda: _itself(node))


def _itself(node: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield facts(
        [
            ("node", node["name"]),
            ("state", styled(node["state"], COLOURS.get(node["state"], ""))),
            ("where", f"{node['hostname']}:{node['pid']}"),
            ("lease", "held" if node["has_lease"] else "lost: it starts nothing"),
            ("load", f"{node['load']:.0%}"),
            ("queues", ", ".join(node["queues"])),
        ]
    )
    yield ""
    columns = [">process", "state", ">jobs", ">weight"]
    yield table("Workers", columns, (_worker_row(worker) for worker in node["workers"]))


def _worker_row(worker: Mapping[str, Any]) -> list[object]:
    state = "ready" if worker["is_ready"] else "starting"
    return [str(worker["pid"]), state, amount(worker["jobs"]), amount(worker["weight"])]


def node_document(node: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return what JSON shows of a node: its row, and the ages by the database's clock."""
    since = {"heartbeat_seconds": node["heartbeat_at"], "up_seconds": node["started_at"]}
    ages = {name: round((now - moment).total_seconds(), 3) for name, moment in since.items()}
    return {**node, **ages}


def node_table(found: Sequence[Mapping[str, Any]], now: datetime) -> RenderableType:
    """Return the nodes as a table."""
    columns = ["node", "state", "where", ">jobs", ">load", "queues", ">heartbeat", ">up"]
    return table("Nodes", columns, (_row(node, now) for node in found))


def _row(node: Mapping[str, Any], now: datetime) -> list[object]:
    runs = node["state"] in ("alive", "draining")
    return [
        node["name"],
        styled(node["state"], COLOURS.get(node["state"], "dim")),
        f"{node['hostname']}:{node['pid']}",
        amount(node["jobs"]),
        f"{node['load']:.0%}" if runs else "-",
        ", ".join(node["queues"]),
        f"{age((now - node['heartbeat_at']).total_seconds())} ago",
        age((now - node["started_at"]).total_seconds()) if runs else "-",
    ]


def _tables(found: Sequence[Mapping[str, Any]], now: datetime) -> Iterator[RenderableType]:
    if not found:
        yield styled("No node has ever registered; start one: twistd -n txqueue --app MODULE")
        return
    yield node_table(found, now)
    known = sorted({name for node in found for name in node["work_types"]})
    yield ""
    yield styled(f"Work types known: {', '.join(known) or 'none'}", "dim")
