"""What can be wrong with nodes: those that are silent, that the database refuses, whose workers
start no jobs, or that run other versions than the rest; and on a host of theirs: certificates,
private keys, admin sockets, the keys of payloads, the archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from txqueue.model.humanize import age, counted, joined
from txqueue.policy.findings import obstacles
from txqueue.policy.findings.finding import FAULT, WARNING, Finding, Row, Topic
from txqueue.policy.findings.status import SERVING, served_queues

NODES: Final = Topic()

NO_NODE: Final = "running-nodes"
"""The check that finds that no node runs, from which others follow."""

# How long the first import of an application may last before a node is said to have no worker.
STARTING: Final = timedelta(seconds=30)


def last_silent(nodes: Iterable[Row]) -> Row | None:
    """Return the node that was the last to fall silent; None if all others live or were stopped."""
    dead = (node for node in nodes if node["state"] == "dead")
    return min(dead, key=lambda node: node["heartbeat_seconds"], default=None)


@NODES.check(NO_NODE, "nodes unended schedules", FAULT, kind="no_node")
def _standstill(
    nodes: Sequence[Row], unended: Sequence[Row], schedules: Sequence[Row]
) -> Iterator[Finding]:
    jobs, active = unended[0]["jobs"], schedules[0]["active"]
    last = last_silent(nodes)
    if any(node["state"] in SERVING for node in nodes) or not (jobs or active or last):
        return
    numbers = ((jobs, "job"), (active, "schedule"))
    needing = " and ".join(counted(number, noun) for number, noun in numbers if number)
    wait = f"; {needing} {'waits' if jobs + active == 1 else 'wait'} for one"
    what, remedy = obstacles.no_node(last, wait if needing else "")
    yield Finding(what, "no job runs, and no schedule makes any", remedy)


@NODES.check("dead-nodes", "nodes", WARNING, kind="dead_node", unless=NO_NODE)
def _dead(nodes: Sequence[Row]) -> Iterator[Finding]:
    for node in nodes:
        if node["state"] != "dead":
            continue
        what = f"node {node['name']} is dead: no heartbeat for {age(node['heartbeat_seconds'])}"
        remedy = obstacles.remedy_if_silent(node, "start it again")
        if lacking := node.get("lacking_right"):
            why = "the database refuses its statements, if its process runs"
            yield Finding(f"{what}, as {lacking}", why, remedy, node["name"], severity=FAULT)
        else:
            yield Finding(what, _why_dead(node, nodes), remedy, node["name"])


def _why_dead(dead: Row, nodes: Sequence[Row]) -> str:
    served = served_queues(nodes, SERVING)
    left = sorted(queue for queue in dead["queues"] if queue not in served)
    if not left:
        return "the others do its work"
    return f"jobs of its {'queue' if len(left) == 1 else 'queues'} {joined(left)} do not run"


def report_of(node: Row) -> Row:
    """Return what the last heartbeat of a live node reported; nothing of another one."""
    return (node.get("report") or {}) if node["state"] in SERVING else {}


@NODES.rows("refused-statements", "nodes", FAULT, kind="refused")
def _refused(node: Row) -> Iterator[Finding]:
    refusal = report_of(node).get("refused") or {}
    # A node that lacks it for its heartbeats cannot report that.
    lacking = node.get("lacking_right") if node["state"] in SERVING else None
    if said := lacking or refusal.get("said"):
        remedy = (
            obstacles.remedy_of_right(node) if lacking else obstacles.remedy_of_refusal(refusal)
        )
        what = f"the database refuses statements of node {node['name']}: {said}"
        why = "it cannot do that part of its work: claim jobs, write their ends, renew its lease"
        yield Finding(what, why, remedy, node["name"])


@NODES.rows("running-workers", "nodes", FAULT, kind="no_workers")
def _without_workers(node: Row) -> Iterator[Finding]:
    is_idle = node["state"] == "alive" and report_of(node).get("workers") == 0
    if is_idle and node["heartbeat_at"] - node["started_at"] >= STARTING:
        yield Finding(
            f"no worker process of node {node['name']} runs, so that it starts no job",
            "jobs of its queues wait until another node serves them",
            f"see its log on {node['hostname']}: the import of the application may fail",
            node["name"],
        )


@NODES.rows("unable-workers", "nodes", WARNING, kind="unable_workers")
def _unable_workers(node: Row) -> Iterator[Finding]:
    report = report_of(node)
    if number := report.get("unable", 0):
        obstacle = obstacles.worker_obstacle(report)
        is_stopped = obstacle is not None and not obstacle.is_passing
        yield Finding(
            f"{counted(number, 'worker')} of node {node['name']} can start no job:"
            f" {obstacles.closed_workers(report)}",
            "jobs start late, or not at all if no worker of their queue is left",
            "see its log for the reason: those that do not answer and run no job are replaced"
            " after 30 s, all others only with --kill-stuck",
            node["name"],
            severity=FAULT if is_stopped else WARNING,
        )
    if crowded := (report.get("left") or {}).get("crowded"):
        yield Finding(
            f"{counted(crowded, 'worker')} of node {node['name']} can start few jobs:"
            f" {obstacles.threads_left(report)} of its weight of {node['capacity']:,}",
            "jobs start late, and heavy ones not at all",
            "have their handlers return when job.is_cancelled; --kill-stuck replaces such workers",
            node["name"],
            kind="crowded_workers",
        )


@NODES.check("node-versions", "nodes", WARNING)
def _versions(nodes: Sequence[Row]) -> Iterator[Finding]:
    by_version: dict[str, list[str]] = {}
    for node in nodes:
        if node["state"] in SERVING:
            by_version.setdefault(node["version"], []).append(node["name"])
    if len(by_version) > 1:
        what = f"live nodes run different versions: {named_versions(by_version)}"
        why = "that is meant for the time of an upgrade only"
        yield Finding(what, why, "upgrade and restart the older nodes")


def by_application(nodes: Iterable[Row]) -> dict[str, list[str]]:
    """Return the names of the live nodes with workers that run each version of the application."""
    running: dict[str, list[str]] = {}
    for node in nodes:
        for version in report_of(node).get("applications") or ():
            running.setdefault(version, []).append(node["name"])
    return running


def named_versions(running: Mapping[str, Sequence[str]]) -> str:
    """Return versions with the nodes that run them, as one text."""
    return "; ".join(
        f"{version} ({', '.join(names)})" for version, names in sorted(running.items())
    )


_FOR_DEPLOY: Final = (
    "that is meant for the time of a deploy only: jobs run by the code of either version"
)
_KEEP: Final = "restart only nodes on which a type is held; the others run its jobs meanwhile"


@NODES.check("application-versions", "nodes", WARNING, kind="mixed_applications")
def _applications(nodes: Sequence[Row]) -> Iterator[Finding]:
    alive, by_name = served_queues(nodes), {node["name"]: node for node in nodes}
    is_held = any(report_of(node).get("held") for node in nodes)
    finish = "finish the deploy: restart the nodes that run the older one"
    for queue, names in sorted(served_queues(nodes, SERVING).items()):
        running = by_application(by_name[name] for name in names)
        if queue in alive and len(running) > 1:
            yield Finding(
                f"the workers of the queue {queue} run different versions of the application:"
                f" {named_versions(running)}",
                _FOR_DEPLOY,
                _KEEP if is_held else finish,
                queue,
            )
    for node in nodes:
        report = report_of(node)
        if report.get("is_outdated"):
            is_good = is_held and not report.get("held")
            yield Finding(
                f"the files of the application have changed since node {node['name']} read them",
                _FOR_DEPLOY,
                _KEEP if is_good else f"restart it on {node['hostname']}",
                node["name"],
                kind="outdated_node",
            )


@NODES.rows("unforked-workers", "nodes", WARNING)
def _not_forked(node: Row) -> Iterator[Finding]:
    if (obstacle := report_of(node).get("not_forked")) is not None:
        yield Finding(
            f"node {node['name']} starts its workers one by one: importing the application"
            f" {obstacle}",
            "each worker takes the memory of a whole import, and a dead one is replaced slowly",
            "start or open that at its first use, not at import, or set --worker-start spawn",
        )


HOST: Final = Topic()
"""What this host lacks for the work of nodes."""

FILES: Final = Topic()

# Seconds before a certificate's end.
SOON: Final = 30 * 86_400.0
_OTHERS: Final = 0o077


@HOST.rows("payload-keys", "payload_keys", WARNING)
def _payload_keys(row: Row) -> Iterator[Finding]:
    if row["error"] is not None:
        yield Finding(
            row["error"],
            "clients and nodes with this environment do not start",
            row["remedy"],
            severity=FAULT,
        )
    elif row["work_types"] and not row["has_key"]:
        yield Finding(
            f"payloads of {joined(row['work_types'])} are encrypted, and this environment has no"
            f" {row['variable']}",
            "clients and nodes with this environment can neither enqueue nor run them",
            f"run txqueue doctor with the environment of a node, or set {row['variable']}",
        )


@HOST.rows("archive", "archive", WARNING)
def _archive(row: Row) -> Iterator[Finding]:
    if row["error"] is not None:
        yield Finding(
            f"the archive {row['location']} cannot be used from this host: {row['error']}",
            "history that is not archived is not dropped either, and grows",
            "make it reachable and writable for the accounts of nodes",
        )


@FILES.rows("certificates", "certificates", FAULT)
def _certificates(row: Row) -> Iterator[Finding]:
    if row["error"] is not None:
        yield Finding(row["error"], "a node with this --tls-dir does not start", row["remedy"])
    elif (left := row["seconds_left"]) < SOON:
        when = f"expired {age(-left)} ago" if left <= 0 else f"expires in {age(left)}"
        yield Finding(
            f"{row['path']} {when}",
            "peers, operators and clients refuse an expired certificate",
            "issue another with txqueue certs, and restart the node",
            severity=FAULT if left <= 0 else WARNING,
        )


@FILES.rows("private-keys", "private_keys", FAULT)
def _private_keys(row: Row) -> Iterator[Finding]:
    if row["mode"] & _OTHERS:
        what = f"{row['path']} has mode {row['mode']:04o}: other accounts can use it"
        why = "they can pose as its holder, and a node refuses to start with it"
        yield Finding(what, why, f"chmod 600 {row['path']}")


@FILES.rows("admin-sockets", "admin_sockets", FAULT)
def _sockets(row: Row) -> Iterator[Finding]:
    if row["mode"] & _OTHERS:
        yield Finding(
            f"the admin socket {row['path']} has mode {row['mode']:04o}: other accounts can use it",
            "they can cancel jobs and drain the node",
            f"chmod 600 {row['path']}",
        )
