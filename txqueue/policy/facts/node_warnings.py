"""What is wrong with nodes and their workers, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from txqueue.model.humanize import age, counted, counted_as
from txqueue.policy.facts.live_jobs import SERVING, served_queues
from txqueue.policy.facts.obstacles import (
    remedy_if_silent,
    remedy_of_refusal,
    remedy_of_right,
    threads_left,
)
from txqueue.policy.facts.warned import Row, Warned, listed

__all__ = [
    "application_warnings",
    "by_application",
    "crowded_workers",
    "dead",
    "named_versions",
    "not_held",
    "refused",
    "unable_workers",
    "without_workers",
]

# For so long the first import of an application may last before a node is said to have no worker.
STARTING = timedelta(seconds=30)


@listed
def dead(nodes: Iterable[Row], now: datetime) -> Iterator[Warned]:
    """Yield a warning for each node that has died."""
    for node in nodes:
        if node["state"] == "dead":
            silent = age((now - node["heartbeat_at"]).total_seconds())
            what = f"node {node['name']} is dead: no heartbeat for {silent}"
            if lacking := node.get("lacking_right"):
                what = f"{what}, as {lacking}"
            remedy = remedy_if_silent(node, "start it again")
            yield "dead_node", node["name"], what, remedy


@listed
def refused(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node of which the database refuses statements."""
    for node in nodes:
        if node["state"] not in SERVING:
            continue
        refusal = (node.get("report") or {}).get("refused") or {}
        # A node that lacks it for its heartbeats cannot report that.
        if said := node.get("lacking_right") or refusal.get("said"):
            what = f"the database refuses statements of node {node['name']}: {said}"
            is_lacking = bool(node.get("lacking_right"))
            yield (
                "refused",
                node["name"],
                what,
                remedy_of_right(node) if is_lacking else remedy_of_refusal(refusal),
            )


@listed
def without_workers(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node that accepts jobs, and has no worker process for them."""
    for node in nodes:
        is_idle = node["state"] == "alive" and (node.get("report") or {}).get("workers") == 0
        if is_idle and node["heartbeat_at"] - node["started_at"] >= STARTING:
            what = f"no worker process of node {node['name']} runs, so that it starts no job"
            remedy = f"see its log on {node['hostname']}: the import of the application may fail"
            yield "no_workers", node["name"], what, remedy


@listed
def unable_workers(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node of whose workers some can start no job."""
    for node in nodes:
        number = (node.get("report") or {}).get("unable", 0)
        if number and node["state"] in SERVING:
            what = (
                f"{counted(number, 'worker')} of node {node['name']} can start no job:"
                f" {'it does' if number == 1 else 'they do'} not answer, or handlers of ended runs"
                f" fill {'its' if number == 1 else 'their'} threads"
            )
            remedy = (
                "see its log for the reason: those that do not answer and run no job are replaced"
                " after 30 s, all others only with --kill-stuck"
            )
            yield "unable_workers", node["name"], what, remedy


@listed
def crowded_workers(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node with workers half of which threads of ended jobs keep."""
    for node in nodes:
        report = node.get("report") or {}
        if node["state"] in SERVING and (report.get("left") or {}).get("crowded"):
            workers = counted(report["left"]["crowded"], "worker")
            what = (
                f"{workers} of node {node['name']} can start few jobs: {threads_left(report)} of"
                f" its weight of {node['capacity']:,}"
            )
            remedy = (
                "have their handlers return when job.is_cancelled; --kill-stuck replaces such"
                " workers"
            )
            yield "crowded_workers", node["name"], what, remedy


@listed
def not_held(nodes: Iterable[Row]) -> Iterator[Warned]:
    """Yield a warning for each node that lacks jobs that are assigned to it."""
    for node in nodes:
        jobs = (node.get("report") or {}).get("missing", 0)
        if jobs and node["state"] in SERVING:
            what = (
                f"node {node['name']} does not hold"
                f" {counted_as(jobs, 'job', 'that is assigned to it', 'that are assigned to it')}"
            )
            remedy = "nothing: it returns them within two heartbeats; if not, restart it"
            yield "not_held", node["name"], what, remedy


def by_application(nodes: Iterable[Row]) -> dict[str, list[str]]:
    """Return the names of the live nodes with workers that run each version of the application."""
    running: dict[str, list[str]] = {}
    for node in nodes:
        if node["state"] in SERVING:
            for version in (node.get("report") or {}).get("applications") or ():
                running.setdefault(version, []).append(node["name"])
    return running


def named_versions(running: Mapping[str, Sequence[str]]) -> str:
    """Return versions with the nodes that run them, as one text."""
    return "; ".join(
        f"{version} ({', '.join(names)})" for version, names in sorted(running.items())
    )


def application_warnings(nodes: Sequence[Row]) -> list[dict[str, str]]:
    """Return warnings about nodes that run different versions of the application, or old files."""
    return [*_mixed_applications(nodes), *_outdated(nodes)]


@listed
def _mixed_applications(nodes: Sequence[Row]) -> Iterator[Warned]:
    alive, named = served_queues(nodes), {node["name"]: node for node in nodes}
    for queue, names in sorted(served_queues(nodes, SERVING).items()):
        running = by_application(named[name] for name in names)
        if queue in alive and len(running) > 1:
            what = f"the workers of the queue {queue} run different versions of the application"
            remedy = "finish the deploy: restart the nodes that run the older one"
            yield "mixed_applications", queue, f"{what}: {named_versions(running)}", remedy


@listed
def _outdated(nodes: Iterable[Row]) -> Iterator[Warned]:
    for node in nodes:
        if node["state"] in SERVING and (node.get("report") or {}).get("is_outdated"):
            what = f"the files of the application have changed since node {node['name']} read them"
            yield "outdated_node", node["name"], what, f"restart it on {node['hostname']}"
