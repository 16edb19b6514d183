"""``txqueue status`` and ``txqueue nodes``: show the queues, the nodes and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txqueue.cli.options import GlobalOptions, command
from txqueue.cli.output import Lines, show, styled, table
from txqueue.cli.source import read
from txqueue.model.humanize import age, amount, duration, joined, rate
from txqueue.policy.findings.nodes import by_application, named_versions
from txqueue.policy.findings.status import largest, living_first, worker_state

if TYPE_CHECKING:
    from rich.console import RenderableType


_QUEUES_TOLD, _TYPES_TOLD = 20, 100
COLOURS = {"alive": "green", "draining": "yellow", "dead": "bold red"}


@command()
def nodes(options: GlobalOptions) -> None:
    """Show the nodes, their hosts and their load."""
    from txqueue.store.reads.queue_state import about_nodes

    known = read(options, about_nodes, lambda admin: admin.nodes())
    show(options, {"nodes": known}, lambda: _node_tables(known))


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


def _node_tables(rows: Sequence[Mapping[str, Any]]) -> Lines:
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


BAR = 12
# The most queues, and nodes, that people are shown; JSON has more.
MOST_SHOWN = 50


@command()
def status(options: GlobalOptions) -> None:
    """Show the queues, the nodes and warnings."""
    from txqueue.store.reads.queue_state import about_all

    document = read(options, about_all, lambda admin: admin.status())
    show(options, document, lambda: _tables(document))


def _tables(document: Mapping[str, Any]) -> Lines:
    if document["queues"]:
        rows = largest(document["queues"], MOST_SHOWN)
        yield _queue_table(rows)
        # A node of an older version tells of no others.
        others = document.get("other_queues", {"names": 0})["names"]
        yield from _more(len(document["queues"]) - len(rows) + others, "queues with fewer jobs")
    else:
        yield styled("No queue has jobs, and no node serves one.")
    yield ""
    nodes = living_first(node for node in document["nodes"] if node["state"] != "stopped")
    yield node_table(nodes[:MOST_SHOWN]) if nodes else styled("No node runs.")
    yield from _more(len(nodes) - MOST_SHOWN, "nodes: txqueue nodes")
    stopped = len(document["nodes"]) - len(nodes)
    history = document["history"]
    yield ""
    yield styled(
        f"History: about {amount(history['done'])} done, {amount(history['cancelled'])} cancelled"
        + (f". Stopped nodes: {stopped}" if stopped else ""),
        "dim",
    )
    # A node of an older version tells of none.
    if blocked := document.get("blocked"):
        yield ""
        yield _blocked_table(blocked[:MOST_SHOWN])
        for sentence in document.get("blocked_left_out", ()):
            yield styled(f"{sentence[0].upper()}{sentence[1:]}.", "dim")
    for warning in document["warnings"]:
        yield _warning(warning)


def _more(left: int, what: str) -> Lines:
    if left > 0:
        yield styled(f"and {amount(left)} more {what}", "dim")


def _queue_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    columns = ["queue", ">ready", "", ">waiting", ">running", ">failed", ">oldest", ">done/s"]
    most = max(row["ready"] for row in rows)
    return table("Queues", columns, (_queue_row(row, most) for row in rows))


def _queue_row(row: Mapping[str, Any], most: int) -> list[object]:
    oldest = row["oldest_ready_seconds"]
    return [
        row["queue"],
        amount(row["ready"]),
        styled("█" * (round(BAR * row["ready"] / most) if most else 0), "cyan"),
        amount(row["waiting"]),
        amount(row["assigned"]),
        styled(amount(row["failed"]), "red" if row["failed"] else ""),
        "-" if oldest is None else age(oldest),
        rate(row["done_per_second"]),
    ]


def _blocked_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    columns = [">jobs", "reason", "queue", "type", "such as"]
    return table("Why jobs wait", columns, (_blocked_row(row) for row in rows))


def _blocked_row(row: Mapping[str, Any]) -> list[object]:
    style = {"fault": "red", "act": "yellow"}.get(row["gravity"], "")
    reason = styled(row["reason"], style)
    return [amount(row["jobs"]), reason, row["queue"], row["work_type"], f"job {row['job_id']}"]


def _warning(warning: Mapping[str, str]) -> RenderableType:
    line = styled("")
    for text, style in (("! ", "bold yellow"), (warning["what"], "yellow")):
        line.append_text(styled(text, style))
    return line.append_text(styled(f"; {warning['remedy']}", "dim"))
