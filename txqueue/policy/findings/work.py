"""What can be wrong with queues, work types, pauses, schedules, worksets and jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from txqueue.model.humanize import (
    age,
    amount,
    argument,
    counted,
    counted_as,
    joined,
    limit_command,
    resume_command,
    word,
)
from txqueue.policy.findings.blocked_jobs import COUNTED_BY_NAME
from txqueue.policy.findings.finding import FAULT, WARNING, Finding, Row, Topic
from txqueue.policy.findings.nodes import NO_NODE, last_silent, report_of
from txqueue.policy.findings.obstacles import HeldType, to_undrain, unknown, unserved
from txqueue.policy.findings.reason import HEAVY_HEAD
from txqueue.policy.findings.status import MOST_SERVED, SERVING, LiveJobs, Rest, served_queues

WORK: Final = Topic()
STATUS: Final = Topic()
"""What status and the dashboard count; ``txqueue doctor`` does not, or by other checks."""

# Seconds.
OLD_SNAPSHOT: Final = 300.0
_ENDED: Final = "they run again only by a retry"
_STAY: Final = "these jobs do not run"


def unserved_queue(queue: str, nodes: Iterable[Row]) -> tuple[str, str] | None:
    """Return what is wrong, and the remedy, if no node serves a queue, or all of them drain."""
    serving = served_queues(known := list(nodes), SERVING)
    if queue in served_queues(known):
        return None
    if queue in serving:
        names = serving[queue]
        what = f"every node that serves the queue {queue} is draining: {joined(names)}"
        return what, to_undrain(names)
    return unserved(queue, _last_server(queue, known))


def _last_server(queue: str, nodes: Iterable[Row]) -> Row | None:
    return last_silent(node for node in nodes if queue in node["queues"])


def unknown_type(
    work_type: str, nodes: Iterable[Row], *, is_published: bool
) -> tuple[str, str] | None:
    """Return what is wrong, and the remedy, if no live node has a work type.

    Args:
        work_type: The work type.
        nodes: The nodes.
        is_published: Whether any node has ever registered it.
    """
    if any(work_type in _defined(node) for node in nodes if node["state"] in SERVING):
        return None
    return unknown(work_type, None, is_published=is_published)


@WORK.check(
    "unserved-queues", "live nodes", FAULT, kind="unserved_queue", unless=NO_NODE, most=1000
)
def _unserved_queues(live: LiveJobs, nodes: Sequence[Row]) -> Iterator[Finding]:
    # What waits for nodes that drain is counted as blocked.
    served = served_queues(nodes, SERVING)
    for queue, jobs in _sums(live.queues, "queue", "waiting", "ready").items():
        if queue not in served:
            which_has = f", which has {counted(jobs, 'job')}"
            what, remedy = unserved(queue, _last_server(queue, nodes), which_has)
            yield Finding(what, _STAY, remedy, queue)
    # Of more served queues some are among those that are left out.
    if len(served) <= MOST_SERVED and (which := _which_have(live.other_queues, "more queue")):
        yield Finding(f"no live node serves {which}", _STAY, "see: txqueue jobs")


@WORK.check(
    "unknown-work-types", "live nodes", FAULT, kind="unknown_type", unless=NO_NODE, most=1000
)
def _unknown_types(live: LiveJobs, nodes: Sequence[Row]) -> Iterator[Finding]:
    known = {name for node in nodes if node["state"] in SERVING for name in _defined(node)}
    new = {row["work_type"] for row in live.work_types if row.get("is_published") is False}
    for work_type, jobs in _sums(live.work_types, "work_type", "waiting", "ready").items():
        if work_type not in known:
            last = _last_definer(work_type, nodes)
            which_has, is_published = f", which has {counted(jobs, 'job')}", work_type not in new
            what, remedy = unknown(work_type, last, which_has, is_published=is_published)
            yield Finding(what, _STAY, remedy, work_type)
    if len(known) <= MOST_SERVED and (which := _which_have(live.other_types, "more work type")):
        yield Finding(f"no live node has {which}", _STAY, "see: txqueue jobs")


def _last_definer(work_type: str, nodes: Iterable[Row]) -> Row | None:
    return last_silent(node for node in nodes if work_type in _defined(node))


def _defined(node: Row) -> Iterator[str]:
    """Yield the work types that a node's application defines: some need a key that it lacks, or are
    held.
    """
    yield from node["work_types"]
    for left_out in ("keyless", "held"):
        yield from (node.get("report") or {}).get(left_out) or ()


def _which_have(rest: Rest, noun: str) -> str:
    """Return how many names are left out, and how many jobs these have to run; empty for none."""
    jobs = sum(rest.jobs.get(state, 0) for state in ("waiting", "ready"))
    have = "has" if rest.names == 1 else "have"
    return f"{counted(rest.names, noun)}, which {have} {counted(jobs, 'job')}" if jobs else ""


def _sums(live: Iterable[Row], column: str, *states: str) -> dict[str, int]:
    """Return the number of jobs in some states for each name, the largest first."""
    sums: dict[str, int] = {}
    for row in live:
        if row["state"] in states:
            sums[row[column]] = sums.get(row[column], 0) + row["jobs"]
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


# The only warning about what ends by itself is that of a heavy job.
_BY_GRAVITY: Final = {
    "fault": (FAULT, "they wait until that is repaired"),
    "act": (WARNING, "they wait until an operator ends that"),
    "course": (WARNING, "nodes with room for jobs behind it do not start these"),
}


@WORK.check("blocked-jobs", "blocked_jobs", WARNING)
def _blocked(reasons: Iterable[Row]) -> Iterator[Finding]:
    """Yield each reason that needs an act or keeps others waiting for long, but for those of
    `COUNTED_BY_NAME`.
    """
    by_detail: dict[tuple[str, str], list[Row]] = {}
    for reason in reasons:
        is_warned = reason["gravity"] != "course" or reason["kind"] == HEAVY_HEAD
        if is_warned and reason["kind"] not in COUNTED_BY_NAME:
            by_detail.setdefault((reason["gravity"], reason["detail"]), []).append(reason)
    for (gravity, detail), rows in by_detail.items():
        number, first = sum(row["jobs"] for row in rows), rows[0]
        do_not_run = "does not run" if number == 1 else "do not run"
        severity, why = _BY_GRAVITY[gravity]
        yield Finding(
            f"{counted(number, 'job')} {do_not_run}, such as job {first['job_id']}"
            f" ({first['work_type']}): {detail}",
            why,
            first["remedy"],
            first["work_type"],
            first["kind"],
            severity,
        )


@WORK.rows("pauses", "pauses", WARNING, kind="paused", most=1000)
def _pauses(row: Row) -> Iterator[Finding]:
    kind, key = row["kind"], row["key"]
    since = "" if row["seconds"] is None else f" for {age(row['seconds'])}"
    actor = f" by {row['actor']}" if row["actor"] else ""
    what = f"the {kind} {key} is paused{since}{actor}"
    why = "its jobs wait until it is resumed"
    act = {"act": "resume", "kind": kind, "key": key}
    yield Finding(what, why, f"resume it: {resume_command(kind, key)}", key, act=act)


@WORK.rows("held-types", "held_types", WARNING, kind="held_type")
def _held(row: Row) -> Iterator[Finding]:
    held = HeldType(**row)
    why = "its jobs wait, or run on nodes of other versions"
    act = {"act": "release_type", "work_type": held.work_type}
    yield Finding(str(held), why, held.remedy, held.work_type, act=act)


@WORK.rows(
    "overdue-schedules",
    "due_schedules",
    WARNING,
    kind="overdue_schedules",
    unless=NO_NODE,
    most=1000,
)
def _overdue(row: Row) -> Iterator[Finding]:
    yield Finding(
        f"the schedule {row['name']} is overdue by {age(row['seconds'])}",
        "its job was not enqueued",
        "check that a node runs, and read its log"
        if row["has_class"]
        else "no node has its class: start one, or if the class is gone, remove the schedule by:"
        f" txqueue schedule remove {argument(row['name'])}",
        row["name"],
        act={} if row["has_class"] else {"act": "remove_schedule", "name": row["name"]},
    )


@STATUS.rows("full-queues", "controls", WARNING, kind="full")
def _full(control: Row) -> Iterator[Finding]:
    if control["is_full"]:
        limit = control["backlog"]
        yield Finding(
            f"the queue {control['key']} is full: its waiting and ready jobs have reached its"
            f" backlog limit of {amount(limit)}; new ones are refused until there are fewer than"
            f" {amount(limit - limit // 10)}",
            "its enqueues fail",
            "check that its jobs run, or raise the limit:"
            f" {limit_command('queue', control['key'], '--backlog N')}",
            control["key"],
        )


@STATUS.check("failed-jobs", "live", WARNING, kind="failed_jobs")
def _failed(live: LiveJobs) -> Iterator[Finding]:
    see = "see why with: txqueue jobs --state failed"
    for work_type, jobs in _sums(live.work_types, "work_type", "failed").items():
        what = f"{counted(jobs, 'job')} of {work_type} failed for good"
        yield Finding(what, _ENDED, f"{see} --type {word(work_type)}", work_type)
    if jobs := live.other_types.jobs.get("failed", 0):
        yield Finding(f"{counted(jobs, 'job')} of other work types failed for good", _ENDED, see)


@STATUS.rows("refused-schedules", "schedules", WARNING, kind="refused_schedules")
def _refused(schedules: Row) -> Iterator[Finding]:
    if number := schedules["refused"]:
        name = schedules["such_as"]
        what = f"{amount(number)} of the schedules {'is' if number == 1 else 'are'}"
        yield Finding(
            f"{what} without their last job, such as {name}",
            "that job was refused",
            "see why: txqueue schedules",
            name,
        )


@STATUS.rows("idle-worksets", "worksets", WARNING, kind="idle_workset")
def _idle(workset: Row) -> Iterator[Finding]:
    if workset["remaining"] and not workset["is_started"]:
        name, items = workset["name"], counted(workset["remaining"], "item")
        what = f"the workset {name} has {items}, and was never started"
        remedy = "start it, from Python: queue.start_workset()"
        yield Finding(what, "no item of it is done", remedy, name)


@STATUS.rows("old-snapshots", "old_snapshots", WARNING, kind="old_snapshot")
def _old_snapshot(row: Row) -> Iterator[Finding]:
    if row["seconds"] is None or row["seconds"] >= OLD_SNAPSHOT:
        since = "" if row["seconds"] is None else f" for {age(row['seconds'])}"
        subject = f"{row['kind']} {row['name']}" + (f" (pid {row['pid']})" if row["pid"] else "")
        what = f"the {subject} has kept vacuum from removing dead rows{since}"
        why = "claims and queries read dead rows too, and become slow"
        yield Finding(what, why, "end it if it is not needed", row["name"])


@STATUS.rows("held-jobs", "nodes", WARNING, kind="not_held")
def _not_held(node: Row) -> Iterator[Finding]:
    if jobs := report_of(node).get("missing", 0):
        assigned = counted_as(jobs, "job", "that is assigned to it", "that are assigned to it")
        yield Finding(
            f"node {node['name']} does not hold {assigned}",
            "these jobs do not run meanwhile",
            "nothing: it returns them within two heartbeats; if not, restart it",
            node["name"],
        )


_LAST: Final = {"unserved_queue": _last_server, "unknown_type": _last_definer}
# Of more warnings of a kind, one stands for all.
_FEW: Final = 3


def by_cause(found: Sequence[Row], nodes: Sequence[Row]) -> list[tuple[Row, list[Row]]]:
    """Return the warnings of different causes, each with the others that it stands for.

    A dead node stands for the queues and work types that no other one has.
    """
    numbers = Counter(warning["kind"] for warning in found)
    groups: dict[tuple[str, str], list[Row]] = {}
    for warning in found:
        kind, subject = warning["kind"], warning["what"]
        if kind in _LAST and (last := _LAST[kind](warning["subject"], nodes)) is not None:
            kind, subject = "dead_node", last["name"]
        elif kind == "dead_node":
            subject = warning["subject"]
        group = groups.setdefault((kind, "" if numbers[kind] > _FEW else subject), [])
        group.append(warning)
    return [_with_others(kind, group) for (kind, _), group in groups.items()]


def _with_others(kind: str, group: Sequence[Row]) -> tuple[Row, list[Row]]:
    first, *others = sorted(group, key=lambda warning: warning["kind"] != kind)
    return first, others
