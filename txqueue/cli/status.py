"""``txqueue status``, ``nodes``, ``worksets`` and ``tenants``: what there is, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli import output
from txqueue.cli.options import GlobalOptions, command, limited
from txqueue.cli.source import read, read_database
from txqueue.model.humanize import age, amount, duration, joined, rate
from txqueue.policy.findings.nodes import by_application, named_versions
from txqueue.policy.findings.status import largest, living_first, worker_state

if TYPE_CHECKING:
    from rich.console import RenderableType


_QUEUES_TOLD, _TYPES_TOLD = 20, 100
COLOURS = {"alive": "green", "draining": "yellow", "dead": "bold red"}


@command()
def nodes(options: GlobalOptions) -> None:
    """Show the nodes, their hosts and their load.

    Examples:
        nodes
        nodes --json
    """
    from txqueue.store.reads.queue_state import about_nodes

    known = read(options, about_nodes, lambda admin: admin.nodes())
    output.show(options, {"nodes": known}, lambda: _node_tables(known))


def _of_running(text: Callable[[Any], object]) -> Callable[[Mapping[str, Any]], object]:
    """Return what makes the cell of a node that runs; of others it is empty."""
    return lambda node: text(node) if node["state"] in ("alive", "draining") else None


def _lag(node: Mapping[str, Any]) -> str | None:
    """Return the node's reactor lag."""
    lag = node.get("report", {}).get("lag")
    return None if lag is None else duration(lag)


def _age(node: Mapping[str, Any], name: str, after: str = "") -> str | None:
    """Return an age; a node that cannot reach its database reports fewer than the database has."""
    return None if node.get(name) is None else age(node[name]) + after


_NODES: output.Columns = {
    "node": "name",
    "state": lambda node: output.styled(node["state"], COLOURS.get(node["state"], "dim")),
    "where": lambda node: f"{node['hostname']}:{node['pid']}",
    ">jobs": lambda node: amount(node["jobs"]) if "jobs" in node else None,
    ">load": _of_running(lambda node: f"{node['load']:.0%}"),
    ">lag": _of_running(_lag),
    "queues": lambda node: joined(node["queues"], most=_QUEUES_TOLD),
    ">heartbeat": lambda node: _age(node, "heartbeat_seconds", " ago"),
    ">up": _of_running(lambda node: _age(node, "up_seconds")),
}
_WORKERS: output.Columns = {
    ">process": "pid",
    "state": worker_state,
    ">jobs": output.amount_of("jobs"),
    ">weight": output.amount_of("weight"),
}


def _node_tables(rows: Sequence[Mapping[str, Any]]) -> output.Lines:
    if not rows:
        yield output.styled("No node has ever registered; start one: txqueue node --app MODULE")
        return
    yield from output.listing("Nodes", _NODES, living_first(rows))
    for node in rows:
        if isinstance(node.get("workers"), list):
            # What a node reports only about itself, to a command that is connected to it.
            yield ""
            title = f"Workers of {node['name']}"
            yield from output.listing(title, _WORKERS, node["workers"])
            if not node["has_lease"]:
                text = "Its lease has expired: it starts no jobs until it has renewed it."
                yield output.styled(text, "red")
    if running := by_application(rows):
        yield ""
        yield output.styled(f"Application: {named_versions(running)}", "dim")
    known = sorted({name for node in rows for name in node.get("work_types", ())})
    if known:
        yield ""
        yield output.styled(f"Work types: {joined(known, most=_TYPES_TOLD)}", "dim")


BAR = 12
# The most queues, and nodes, that people are shown; JSON has more.
MOST_SHOWN = 50
# Seconds between what --watch shows.
EACH = 2


@command()
@click.option("--watch", is_flag=True, help=f"Show it again every {EACH} s, from the database.")
def status(options: GlobalOptions, /, *, watch: bool) -> None:
    """Show the queues, the nodes and warnings.

    Examples:
        status
        status --watch
    """
    from txqueue.store.reads.queue_state import about_all

    if not watch:
        document = read(options, about_all, lambda admin: admin.status())
        output.show(options, document, lambda: _tables(document))
        return
    # Ctrl-C is the way to end this.
    with suppress(KeyboardInterrupt):
        while True:
            document = read_database(options, about_all)
            if not options.json:
                output.console(options).clear()
            output.show(options, document, partial(_tables, document))
            sleep(EACH)


def _tables(document: Mapping[str, Any]) -> output.Lines:
    rows = largest(document["queues"], MOST_SHOWN)
    most = max((row["ready"] for row in rows), default=0)
    yield from output.listing(
        "Queues", _queue_columns(most), rows, "No queue has jobs, and no node serves one."
    )
    # A node of the alpha tells of no others, and of no blocked jobs.
    others = document.get("other_queues", {"names": 0})["names"]
    yield from _more(len(document["queues"]) - len(rows) + others, "queues with fewer jobs")
    yield ""
    nodes = living_first(node for node in document["nodes"] if node["state"] != "stopped")
    yield from output.listing("Nodes", _NODES, nodes[:MOST_SHOWN], "No node runs.")
    yield from _more(len(nodes) - MOST_SHOWN, "nodes: txqueue nodes")
    stopped = len(document["nodes"]) - len(nodes)
    history = document["history"]
    yield ""
    yield output.styled(
        f"History: about {amount(history['done'])} done, {amount(history['cancelled'])} cancelled"
        + (f". Stopped nodes: {stopped}" if stopped else ""),
        "dim",
    )
    if blocked := document.get("blocked"):
        yield ""
        yield from output.listing("Why jobs wait", _BLOCKED, blocked[:MOST_SHOWN])
        for sentence in document.get("blocked_left_out", ()):
            yield output.styled(f"{sentence[0].upper()}{sentence[1:]}.", "dim")
    for warning in document["warnings"]:
        yield _warning(warning)


def _more(left: int, what: str) -> output.Lines:
    if left > 0:
        yield output.styled(f"and {amount(left)} more {what}", "dim")


def _queue_columns(most: int) -> output.Columns:
    """Return the columns of queues, of which the longest bar stands for the most ready jobs."""
    return {
        "queue": "queue",
        ">ready": output.amount_of("ready"),
        "": lambda row: output.styled(
            "█" * (round(BAR * row["ready"] / most) if most else 0), "cyan"
        ),
        ">waiting": output.amount_of("waiting"),
        ">running": output.amount_of("assigned"),
        ">failed": lambda row: output.styled(amount(row["failed"]), "red" if row["failed"] else ""),
        ">oldest": output.age_of("oldest_ready_seconds"),
        ">done/s": lambda row: rate(row["done_per_second"]),
    }


_GRAVITIES = {"fault": "red", "act": "yellow"}
_BLOCKED: output.Columns = {
    ">jobs": output.amount_of("jobs"),
    "reason": lambda row: output.styled(row["reason"], _GRAVITIES.get(row["gravity"], "")),
    "queue": "queue",
    "type": "work_type",
    "such as": lambda row: f"job {row['job_id']}",
}


def _warning(warning: Mapping[str, str]) -> RenderableType:
    line = output.styled("")
    for text, style in (("! ", "bold yellow"), (warning["what"], "yellow")):
        line.append_text(output.styled(text, style))
    return line.append_text(output.styled(f"; {warning['remedy']}", "dim"))


@command()
@click.argument("name", required=False)
@limited(text="List at most this many items.")
def worksets(options: GlobalOptions, name: str | None, limit: int) -> None:
    """Show the progress of worksets, or the failed items of one.

    Examples:
        worksets
        worksets import-7
    """
    from txqueue.store.reads.schedule_list import about_workset_failures, about_worksets

    if name is None:
        rows = read_database(options, about_worksets)
        empty = "No workset was filled or started."
        output.show_list(options, {"worksets": rows}, "Worksets", _WORKSETS, empty)
    else:
        failed = read_database(options, about_workset_failures, name, limit)
        output.show(options, {"workset": name, "failed": failed}, lambda: _failures(failed))


@command()
@limited(50)
def tenants(options: GlobalOptions, limit: int) -> None:
    """Show the tenants that have jobs.

    Those with the most ready ones come first.

    Examples:
        tenants
        tenants --limit 100
    """
    from txqueue.store.reads.queue_state import about_tenants

    rows = read_database(options, about_tenants, limit)
    output.show_list(options, {"tenants": rows}, "Tenants", _TENANTS, "No tenant has jobs.")


_WORKSETS: output.Columns = {
    "workset": "name",
    "ended": lambda row: output.bar(row["done"] + row["failed"], row["total"]),
    ">done": output.amount_of("done"),
    ">failed": lambda row: output.styled(amount(row["failed"]), "red" if row["failed"] else ""),
    ">of": lambda row: f"{'' if row['is_exact'] else 'about '}{amount(row['total'])}",
    ">jobs": lambda row: f"{row['jobs']} of {row['size']}" if row["is_started"] else "not started",
}
_TENANTS: output.Columns = {
    "tenant": lambda row: f"{row['tenant']}{' (paused)' if row['is_paused'] else ''}",
    ">ready": output.amount_of("ready"),
    ">waiting": output.amount_of("waiting"),
    ">running": output.amount_of("assigned"),
    ">failed": output.amount_of("failed"),
    ">oldest": output.age_of("oldest_ready_seconds"),
    ">share": lambda row: f"{row['share']:g}",
    ">limit": "concurrency",
}


def _failures(rows: Sequence[Mapping[str, Any]]) -> output.Lines:
    # In a workset's own table, an item has its number in a part; in an application's, a key.
    has_parts = any(row["part"] for row in rows)
    parts: output.Columns = {">part": "part"} if has_parts else {}
    columns: output.Columns = {
        **parts,
        "item": "key",
        ">runs": "attempt",
        "error": lambda row: row["error"].splitlines()[0],
    }
    return output.listing("Failed items", columns, rows, "No item of it has failed.")
