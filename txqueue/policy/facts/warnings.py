"""What is wrong with queues, nodes and jobs, from the database's counts, and how to fix it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from txqueue.model.humanize import age, amount, counted, counted_as, joined
from txqueue.policy.facts.live_jobs import SERVING, LiveJobs, Rest, served_queues
from txqueue.policy.facts.obstacles import GRANT, UNDRAIN, remedy_of_refusal, threads_left

__all__ = [
    "MOST_WARNED",
    "application_warnings",
    "by_application",
    "crowded_workers",
    "full",
    "idle",
    "named_versions",
    "paused",
    "recurring",
    "refused",
    "unable_workers",
    "unknown_type",
    "unserved_queue",
    "warnings",
    "without_workers",
]

Row = Mapping[str, Any]
Warned = Iterator[tuple[str, str, str, str]]

MOST_WARNED = 20
"""How many warnings of a kind are given; one more says how many others there are."""

OLD_SNAPSHOT = 300.0
# For so long the first import of an application may last before a node is said to have no worker.
STARTING = timedelta(seconds=30)


def warnings(
    live: LiveJobs, nodes: Sequence[Row], snapshots: Iterable[Row], now: datetime
) -> list[dict[str, str]]:
    """Return what is wrong with nodes, queues and jobs, and how to fix it.

    Args:
        live: The numbers of unended or failed jobs.
        nodes: The nodes.
        snapshots: The snapshots that keep vacuum from removing rows.
        now: The time by the database's clock.

    Returns:
        Dictionaries with ``kind, subject, what, remedy``; the gravest first.
    """
    return [
        *_few(_dead(nodes, now)),
        *refused(nodes),
        *without_workers(nodes),
        *_few(_unable(nodes)),
        *crowded_workers(nodes),
        *_few(_not_held(nodes)),
        *_few(_unserved(live, nodes)),
        *_few(_unknown(live, nodes)),
        *application_warnings(nodes),
        *_few(_failed(live)),
        *_few(_held_back(snapshots, now)),
    ]


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
    return [*_few(_mixed_applications(nodes)), *_few(_outdated(nodes))]


def refused(nodes: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each node of which the database refuses statements."""
    return _few(_refused(nodes))


def without_workers(nodes: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each node that accepts jobs, and has no worker process for them."""
    return _few(_without_workers(nodes))


def unable_workers(nodes: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each node of whose workers some can start no job."""
    return _few(_unable(nodes))


def crowded_workers(nodes: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each node with workers half of which threads of ended jobs keep."""
    return _few(_crowded(nodes))


def _refused(nodes: Iterable[Row]) -> Warned:
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
                GRANT if is_lacking else remedy_of_refusal(refusal),
            )


def _without_workers(nodes: Iterable[Row]) -> Warned:
    for node in nodes:
        is_idle = node["state"] == "alive" and (node.get("report") or {}).get("workers") == 0
        if is_idle and node["heartbeat_at"] - node["started_at"] >= STARTING:
            what = f"no worker process of node {node['name']} runs, so that it starts no job"
            remedy = f"see its log on {node['hostname']}: the import of the application may fail"
            yield "no_workers", node["name"], what, remedy


def _few(warned: Iterable[tuple[str, str, str, str]]) -> list[dict[str, str]]:
    """Return the first warnings of a kind as dictionaries, and how many more there are."""
    all_warned = list(warned)
    first, left = all_warned[:MOST_WARNED], len(all_warned) - MOST_WARNED
    if left > 0:
        kind = first[-1][0]
        what = f"{counted(left, 'more warning')} of this kind: {kind.replace('_', ' ')}"
        first.append((kind, "", what, "as for those before"))
    return [
        dict(zip(("kind", "subject", "what", "remedy"), warning, strict=True)) for warning in first
    ]


def paused(controls: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each pause by an operator."""
    return _few(
        (
            "paused",
            control["key"],
            f"the {control['kind']} {control['key']} is paused",
            f"to resume it: txqueue resume {_by_name(control)}",
        )
        for control in controls
        if control["is_paused"]
    )


def full(controls: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each queue that refuses new jobs."""
    return _few(
        (
            "full",
            control["key"],
            f"the queue {control['key']} is full:"
            f" {counted_as(control['backlog'], 'job', 'is ready', 'are ready')},"
            " new ones are refused",
            "check that its jobs run, or raise the limit:"
            f" txqueue limit queue {_by_name(control)} --backlog N",
        )
        for control in controls
        if control["is_full"]
    )


def recurring(schedules: Row) -> list[dict[str, str]]:
    """Return warnings for schedules that no node ticks, and those whose last job was refused."""
    found_warnings = []
    for kind, number, what, remedy in (
        (
            "overdue",
            schedules["overdue"],
            "overdue by more than a minute",
            "check that a node runs that has the classes of those declared in code; remove those"
            " whose class is gone: txqueue schedule remove NAME",
        ),
        ("refused", schedules["refused"], "without their last job", "see why: txqueue schedules"),
    ):
        if number:
            are = "is" if number == 1 else "are"
            such_as = schedules["such_as"]
            what_text = f"{amount(number)} of the schedules {are} {what}, such as {such_as}"
            warning = (f"{kind}_schedules", such_as, what_text, remedy)
            found_warnings.append(
                dict(zip(("kind", "subject", "what", "remedy"), warning, strict=True))
            )
    return found_warnings


def idle(worksets: Iterable[Row]) -> list[dict[str, str]]:
    """Return a warning for each workset that has items and was never started."""
    return _few(
        (
            "idle_workset",
            workset["name"],
            f"the workset {workset['name']} has {counted(workset['remaining'], 'item')},"
            " and was never started",
            "start it, from Python: queue.start_workset()",
        )
        for workset in worksets
        if workset["remaining"] and not workset["is_started"]
    )


def _by_name(control: Row) -> str:
    kind, key = control["kind"], shlex.quote(control["key"])
    return key if kind == "queue" else f"--{kind} {key}"


def _dead(nodes: Iterable[Row], now: datetime) -> Warned:
    for node in nodes:
        if node["state"] == "dead":
            silent = age((now - node["heartbeat_at"]).total_seconds())
            what = f"node {node['name']} is dead: no heartbeat for {silent}"
            remedy = f"start it again on {node['hostname']}"
            if lacking := node.get("lacking_right"):
                what, remedy = f"{what}, as {lacking}", GRANT
            yield "dead_node", node["name"], what, remedy


def _not_held(nodes: Iterable[Row]) -> Warned:
    for node in nodes:
        jobs = (node.get("report") or {}).get("missing", 0)
        if jobs and node["state"] in SERVING:
            what = (
                f"node {node['name']} does not hold"
                f" {counted_as(jobs, 'job', 'that is assigned to it', 'that are assigned to it')}"
            )
            remedy = "nothing: it returns them within two heartbeats; if not, restart it"
            yield "not_held", node["name"], what, remedy


def _unable(nodes: Iterable[Row]) -> Warned:
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


def _crowded(nodes: Iterable[Row]) -> Warned:
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


def unserved_queue(queue: str, nodes: Iterable[Row]) -> tuple[str, str] | None:
    """Return what is wrong, and the remedy, if no node serves a queue, or all of them drain."""
    serving = served_queues(known := list(nodes), SERVING)
    if queue in served_queues(known):
        return None
    if queue in serving:
        names = joined(serving[queue])
        return f"every node that serves the queue {queue} is draining: {names}", UNDRAIN
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


def _unserved(live: LiveJobs, nodes: Iterable[Row]) -> Warned:
    # What waits for nodes that drain is counted as blocked.
    served, waiting = (
        served_queues(nodes, SERVING),
        _sums(live.queues, "queue", ("waiting", "ready")),
    )
    for queue, jobs in waiting.items():
        if queue not in served:
            what = f"no live node serves the queue {queue}, which has {counted(jobs, 'job')}"
            yield "unserved_queue", queue, what, f"start a node with --queues {queue}"
    if jobs := _left(live.other_queues, "waiting", "ready"):
        what = f"no live node serves {_which_have(live.other_queues, 'more queue')}"
        yield "unserved_queue", "", f"{what} {counted(jobs, 'job')}", "see: txqueue jobs"


def _unknown(live: LiveJobs, nodes: Iterable[Row]) -> Warned:
    known = {name for node in nodes if node["state"] in SERVING for name in _defined(node)}
    for work_type, jobs in _sums(live.work_types, "work_type", ("waiting", "ready")).items():
        if work_type not in known:
            what = f"no live node has the work type {work_type}, which has {counted(jobs, 'job')}"
            yield "unknown_type", work_type, what, "start a node whose --app defines it"
    if jobs := _left(live.other_types, "waiting", "ready"):
        what = f"no live node has {_which_have(live.other_types, 'more work type')}"
        yield "unknown_type", "", f"{what} {counted(jobs, 'job')}", "see: txqueue jobs"


def _which_have(rest: Rest, noun: str) -> str:
    return f"{counted(rest.names, noun)}, which {'has' if rest.names == 1 else 'have'}"


def _defined(node: Row) -> Iterator[str]:
    """Yield the work types that a node's application defines; some need a key that it lacks."""
    yield from node["work_types"]
    yield from (node.get("report") or {}).get("keyless") or ()


def _mixed_applications(nodes: Sequence[Row]) -> Warned:
    for queue in sorted(served_queues(nodes)):
        serving = [node for node in nodes if node["state"] in SERVING and queue in node["queues"]]
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


def _failed(live: LiveJobs) -> Warned:
    for work_type, jobs in _sums(live.work_types, "work_type", ("failed",)).items():
        what = f"{counted(jobs, 'job')} of {work_type} failed for good"
        remedy = f"txqueue jobs --state failed --type {work_type}"
        yield "failed_jobs", work_type, what, f"see why with: {remedy}"
    if jobs := _left(live.other_types, "failed"):
        what = f"{counted(jobs, 'job')} of other work types failed for good"
        yield "failed_jobs", "", what, "see why with: txqueue jobs --state failed"


def _held_back(snapshots: Iterable[Row], now: datetime) -> Warned:
    for row in snapshots:
        open_for = (now - row["since"]).total_seconds() if row["since"] else None
        if open_for is not None and open_for < OLD_SNAPSHOT:
            continue
        since = f" for {age(open_for)}" if open_for is not None else ""
        subject = f"{row['kind']} {row['name']}" + (f" (pid {row['pid']})" if row["pid"] else "")
        what = f"the {subject} has kept vacuum from removing dead rows{since}"
        yield "old_snapshot", row["name"], what, "end it if it is not needed"


def _left(rest: Rest, *states: str) -> int:
    return sum(rest.jobs.get(state, 0) for state in states)


def _sums(live: Iterable[Row], column: str, states: Sequence[str]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in live:
        if row["state"] in states:
            sums[row[column]] = sums.get(row[column], 0) + row["jobs"]
    return dict(sorted(sums.items()))
