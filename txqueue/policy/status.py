"""The state of the queues and what is wrong with them, from the database's counts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from txqueue.model.humanize import age, amount, counted

__all__ = [
    "LIMITS",
    "application_warnings",
    "by_application",
    "depth",
    "full",
    "idle",
    "named_versions",
    "node_document",
    "paused",
    "queues",
    "recurring",
    "summary",
    "unknown_type",
    "unserved_queue",
    "warnings",
    "work_types",
]

Row = Mapping[str, Any]

LIMITS = ("concurrency", "rate", "burst", "share", "reserve", "backlog")
"""The limits that an operator can set on a queue, a group or a tenant."""

SERVING = ("alive", "draining")
OLD_SNAPSHOT = 300.0


def node_document(node: Row, now: datetime) -> dict[str, Any]:
    """Return a node's row, with the seconds since its start and since its last heartbeat."""
    since = {"heartbeat_seconds": node["heartbeat_at"], "up_seconds": node["started_at"]}
    ages = {name: round((now - moment).total_seconds(), 3) for name, moment in since.items()}
    return {**node, **ages}


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
    return _as_documents([*_mixed_applications(nodes), *_outdated(nodes)])


def summary(
    *,
    live: Sequence[Row],
    recent: Iterable[Row],
    nodes: Sequence[Row],
    snapshots: Iterable[Row],
    history: Iterable[Row],
    controls: Sequence[Row],
    now: datetime,
) -> dict[str, Any]:
    """Summarize the state of all queues and nodes.

    Args:
        live: The number of unended or failed jobs by queue, work_type, state and waiting_for.
        recent: How many jobs each queue completed recently, and since when.
        nodes: The rows of the nodes.
        snapshots: The snapshots that keep vacuum from removing rows.
        history: The estimated number of jobs in each final state.
        controls: What operators have paused or limited.
        now: The time by the database's clock.

    Returns:
        A dictionary with ``queues, nodes, warnings, history, at``.
    """
    return {
        "queues": queues(live, recent, nodes, now),
        "nodes": [node_document(node, now) for node in nodes],
        "warnings": [*warnings(live, nodes, snapshots, now), *paused(controls), *full(controls)],
        "history": {row["state"]: row["jobs"] for row in history},
        "at": now,
    }


def queues(
    live: Iterable[Row], recent: Iterable[Row], nodes: Iterable[Row], now: datetime
) -> list[dict[str, Any]]:
    """Summarize each queue that has jobs, recently had some, or is served by a node.

    Args:
        live: The number of unended or failed jobs by queue, work_type, state and waiting_for.
        recent: How many jobs each queue completed recently, and since when.
        nodes: The nodes.
        now: The time by the database's clock.

    Returns:
        One dictionary for each queue, sorted by name.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(_served(nodes)):
        found[name] = _empty(name)
    for row in live:
        _count(found.setdefault(row["queue"], _empty(row["queue"])), row, now)
    for row in recent:
        queue = found.setdefault(row["queue"], _empty(row["queue"]))
        seconds = max((now - row["since"]).total_seconds(), 0.001)
        queue["done_per_second"] = round(row["jobs"] / seconds, 2)
        queue["done_last_minute"] = row["jobs"] if seconds > 1 else None
    served = _served(nodes)
    for name, queue in found.items():
        queue["nodes"] = served.get(name, [])
    return [found[name] for name in sorted(found)]


def work_types(
    published: Iterable[Row], live: Iterable[Row], nodes: Iterable[Row]
) -> list[dict[str, Any]]:
    """Summarize each work type that nodes have published or that jobs have.

    Args:
        published: The policies that nodes have published.
        live: The number of unended or failed jobs by queue, work_type, state and waiting_for.
        nodes: The nodes.

    Returns:
        One dictionary for each work type, sorted by name; ``policy`` is None for an unpublished
        one, ``nodes`` has the names of the live nodes that know it.
    """
    states = dict.fromkeys(("waiting", "ready", "assigned", "failed"), 0)
    found = {row["work_type"]: {**row, **states, "nodes": []} for row in published}
    for row in live:
        name = row["work_type"]
        unknown = {"work_type": name, "policy": None, "queue": row["queue"]}
        kind = found.setdefault(name, {**unknown, "priority": None, **states, "nodes": []})
        kind[row["state"]] += row["jobs"]
    for node in nodes:
        for name in node["work_types"] if node["state"] in SERVING else ():
            if name in found:
                found[name]["nodes"].append(node["name"])
    return [found[name] for name in sorted(found)]


def depth(looked: Iterable[Row], most: int, now: datetime) -> dict[str, Any]:
    """Summarize the jobs of one queue or work type from those that were looked at.

    Args:
        looked: By state, and by the run of a node that has them: how many jobs were looked at,
            how many of them count, since when the oldest of these could run, and some of the
            ``others``: the work types of a queue, or the queues of a work type.
        most: How many jobs of a state were looked at, at most.
        now: The time by the database's clock.

    Returns:
        The number in each state; ``partial``, the states in which there may be more;
        ``running_on``, how many jobs each run of a node has; ``oldest_ready_seconds``;
        ``others``; and ``at``, the time.
    """
    rows, states = list(looked), ("waiting", "ready", "assigned", "failed")

    def total(column: str, state: str) -> int:
        return sum(row[column] for row in rows if row["state"] == state)

    held = [row for row in rows if row["state"] == "assigned" and row["jobs"]]
    ready = [row["oldest"] for row in rows if row["state"] == "ready" and row["jobs"]]
    ages = [round(max((now - moment).total_seconds(), 0.0), 3) for moment in ready]
    return {
        **{state: total("jobs", state) for state in states},
        "partial": {state for state in states if total("looked", state) >= most},
        "running_on": {row["incarnation"]: row["jobs"] for row in held},
        "oldest_ready_seconds": max(ages, default=None),
        "others": sorted({name for row in rows for name in row["others"] or ()}),
        "at": now,
    }


def _empty(name: str) -> dict[str, Any]:
    states = dict.fromkeys(("waiting", "ready", "assigned", "failed"), 0)
    return {"queue": name, **states, "waiting_for": {}, "oldest_ready_seconds": None} | {
        "done_per_second": 0.0,
        "done_last_minute": 0,
        "nodes": [],
    }


def _count(queue: dict[str, Any], row: Row, now: datetime) -> None:
    queue[row["state"]] += row["jobs"]
    if row["waiting_for"]:
        reasons = queue["waiting_for"]
        reasons[row["waiting_for"]] = reasons.get(row["waiting_for"], 0) + row["jobs"]
    if row["state"] == "ready":
        waited = (now - row["oldest"]).total_seconds()
        queue["oldest_ready_seconds"] = round(max(waited, queue["oldest_ready_seconds"] or 0.0), 3)


def _served(nodes: Iterable[Row]) -> dict[str, list[str]]:
    served: dict[str, list[str]] = {}
    for node in nodes:
        if node["state"] == "alive":
            for queue in node["queues"]:
                served.setdefault(queue, []).append(node["name"])
    return served


def warnings(
    live: Sequence[Row], nodes: Sequence[Row], snapshots: Iterable[Row], now: datetime
) -> list[dict[str, str]]:
    """Return what is wrong with nodes, queues and jobs, and how to fix it.

    Args:
        live: The number of unended or failed jobs by queue, work_type, state and waiting_for.
        nodes: The nodes.
        snapshots: The snapshots that keep vacuum from removing rows.
        now: The time by the database's clock.

    Returns:
        Dictionaries with ``kind, subject, what, remedy``; the gravest first.
    """
    found = [
        *_dead(nodes, now),
        *_unable(nodes),
        *_not_held(nodes),
        *_unserved(live, nodes),
        *_unknown(live, nodes),
        *_unreadable(live),
        *_mixed_applications(nodes),
        *_outdated(nodes),
        *_failed(live),
        *_held_back(snapshots, now),
    ]
    return _as_documents(found)


def _as_documents(found: Iterable[tuple[str, ...]]) -> list[dict[str, str]]:
    return [dict(zip(("kind", "subject", "what", "remedy"), each, strict=True)) for each in found]


def paused(controls: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each pause by an operator."""
    return [
        {
            "kind": "paused",
            "subject": each["key"],
            "what": f"the {each['kind']} {each['key']} is paused",
            "remedy": f"to resume it: txqueue resume {_by_name(each)}",
        }
        for each in controls
        if each["is_paused"]
    ]


def full(controls: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each queue that refuses new jobs."""
    return [
        {
            "kind": "full",
            "subject": each["key"],
            "what": f"the queue {each['key']} is full: {each['backlog']:,} jobs are ready,"
            " new ones are refused",
            "remedy": "check that its jobs run, or raise the limit:"
            f" txqueue limit queue {_by_name(each)} --backlog N",
        }
        for each in controls
        if each["is_full"]
    ]


def recurring(schedules: Row) -> list[dict[str, str]]:
    """Return warnings for schedules that no node ticks, and those whose last job was refused."""
    found = []
    for kind, number, what, remedy in (
        (
            "overdue",
            schedules["overdue"],
            "overdue by more than a minute",
            "check that a node runs",
        ),
        ("refused", schedules["refused"], "without their last job", "see why: txqueue schedules"),
    ):
        if number:
            said = f"{amount(number)} of the schedules are {what}, such as {schedules['such_as']}"
            given = (f"{kind}_schedules", schedules["such_as"], said, remedy)
            found.append(dict(zip(("kind", "subject", "what", "remedy"), given, strict=True)))
    return found


def idle(worksets: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each workset that has items and was never started."""
    return [
        {
            "kind": "idle_workset",
            "subject": each["name"],
            "what": f"the workset {each['name']} has {amount(each['remaining'])} items,"
            " and was never started",
            "remedy": "start it, from Python: queue.start_workset()",
        }
        for each in worksets
        if each["remaining"] and not each["is_started"]
    ]


def _by_name(control: Row) -> str:
    kind, key = control["kind"], shlex.quote(control["key"])
    return key if kind == "queue" else f"--{kind} {key}"


Warned = Iterator[tuple[str, str, str, str]]


def _dead(nodes: Iterable[Row], now: datetime) -> Warned:
    for node in nodes:
        if node["state"] == "dead":
            silent = age((now - node["heartbeat_at"]).total_seconds())
            what = f"node {node['name']} is dead: no heartbeat for {silent}"
            yield "dead_node", node["name"], what, f"start it again on {node['hostname']}"


def _not_held(nodes: Iterable[Row]) -> Warned:
    for node in nodes:
        jobs = (node.get("report") or {}).get("missing", 0)
        if jobs and node["state"] in SERVING:
            what = (
                f"node {node['name']} does not hold {counted(jobs, 'job')} that are assigned to it"
            )
            remedy = "nothing: it returns them within two heartbeats; if not, restart it"
            yield "not_held", node["name"], what, remedy


def _unable(nodes: Iterable[Row]) -> Warned:
    for node in nodes:
        number = (node.get("report") or {}).get("unable", 0)
        if number and node["state"] in SERVING:
            what = (
                f"{counted(number, 'worker')} of node {node['name']} can start no job: handlers"
                " block them or fill their threads"
            )
            remedy = "see its log for the jobs; --kill-stuck replaces such workers"
            yield "unable_workers", node["name"], what, remedy


def unserved_queue(queue: str, nodes: Iterable[Row]) -> tuple[str, str] | None:
    """Return what is wrong, and the remedy, if no live node serves a queue."""
    if queue in _served(nodes):
        return None
    return f"no live node serves the queue {queue}", f"start a node with --queues {queue}"


def unknown_type(
    work_type: str, nodes: Iterable[Row], *, is_published: bool
) -> tuple[str, str] | None:
    """Return what is wrong, and the remedy, if no live node has a work type.

    Args:
        work_type: The work type.
        nodes: The nodes.
        is_published: Whether any node has ever registered it.
    """
    if any(work_type in node["work_types"] for node in nodes if node["state"] in SERVING):
        return None
    what = f"no live node has the work type {work_type}"
    if not is_published:
        what = f"no node has ever registered the work type {work_type}"
    return what, "start a node whose --app defines it"


def _unserved(live: Iterable[Row], nodes: Iterable[Row]) -> Warned:
    served, waiting = _served(nodes), _sums(live, "queue", ("waiting", "ready"))
    for queue, jobs in waiting.items():
        if queue not in served:
            what = f"no live node serves the queue {queue}, which has {counted(jobs, 'job')}"
            yield "unserved_queue", queue, what, f"start a node with --queues {queue}"


def _unknown(live: Iterable[Row], nodes: Iterable[Row]) -> Warned:
    known = {name for node in nodes if node["state"] in SERVING for name in node["work_types"]}
    for work_type, jobs in _sums(live, "work_type", ("waiting", "ready")).items():
        if work_type not in known:
            what = f"no live node has the work type {work_type}, which has {counted(jobs, 'job')}"
            yield "unknown_type", work_type, what, "start a node whose --app defines it"


def _unreadable(live: Iterable[Row]) -> Warned:
    unread = [row for row in live if row["waiting_for"] == "version"]
    for work_type, jobs in _sums(unread, "work_type", ("waiting",)).items():
        what = f"no live node can read {counted(jobs, 'job')} of {work_type}"
        remedy = "start nodes with the newer version of its class; see: txqueue explain JOB"
        yield "unreadable_jobs", work_type, what, remedy


def _mixed_applications(nodes: Sequence[Row]) -> Warned:
    for queue in sorted(_served(nodes)):
        serving = [each for each in nodes if each["state"] in SERVING and queue in each["queues"]]
        running = by_application(serving)
        if len(running) > 1:
            what = f"the workers of the queue {queue} run different versions of the application"
            remedy = "finish the deploy: restart the nodes that run the older one"
            yield "mixed_applications", queue, f"{what}: {named_versions(running)}", remedy


def _outdated(nodes: Iterable[Row]) -> Warned:
    for node in nodes:
        if node["state"] in SERVING and (node.get("report") or {}).get("is_outdated"):
            what = f"the files of the application have changed since node {node['name']} read them"
            yield "outdated_node", node["name"], what, f"restart it on {node['hostname']}"


def _failed(live: Iterable[Row]) -> Warned:
    for work_type, jobs in _sums(live, "work_type", ("failed",)).items():
        what = f"{counted(jobs, 'job')} of {work_type} failed for good"
        remedy = f"txqueue jobs --state failed --type {work_type}"
        yield "failed_jobs", work_type, what, f"see why with: {remedy}"


def _held_back(snapshots: Iterable[Row], now: datetime) -> Warned:
    for row in snapshots:
        open_for = (now - row["since"]).total_seconds() if row["since"] else None
        if open_for is not None and open_for < OLD_SNAPSHOT:
            continue
        since = f" for {age(open_for)}" if open_for is not None else ""
        subject = f"{row['kind']} {row['name']}" + (f" (pid {row['pid']})" if row["pid"] else "")
        what = f"the {subject} has kept vacuum from removing dead rows{since}"
        yield "old_snapshot", row["name"], what, "end it if it is not needed"


def _sums(live: Iterable[Row], column: str, states: Sequence[str]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in live:
        if row["state"] in states:
            sums[row[column]] = sums.get(row[column], 0) + row["jobs"]
    return dict(sorted(sums.items()))
