"""Why a job does not run, and what would make it run: decided from facts of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from txqueue.model.humanize import age, counted
from txqueue.policy.fact_moments import seconds_between, shown_moment
from txqueue.policy.warnings import worker_obstacle

__all__ = ["Explanation", "explain", "explain_archived", "explain_refusal"]

Facts = Mapping[str, Any]
# Jobs of this priority or higher may use a queue's reserve.
HIGH = 7
_SEE_LOG = "if that lasts, see the node's log; --kill-stuck replaces workers that cannot start jobs"


@frozen
class Explanation:
    """Why a job is in its state.

    Attributes:
        job_id: The job's number.
        state: The job's state.
        reason: One word for programs: ``time, backoff, workset, rate, group, parents, unique,
            unknown_type, unreadable, pause, no_capable_node, no_worker, limit, reserve,
            no_free_capacity, next, assigned, running, rescue, done, failed, quarantine,
            cancelled``.
        detail: The reason in one sentence for people.
        remedy: What would make the job run.
    """

    job_id: int
    state: str
    reason: str
    detail: str
    remedy: str


def explain(facts: Facts) -> Explanation:
    """Explain why a job does not run.

    Args:
        facts: The result of ``explain_facts()``, with its timestamps as ISO 8601 text.

    Returns:
        The gravest reason: while it lasts, the job does not run even if all other reasons end.
    """
    job = facts["job"]
    reason, detail, remedy = _BY_STATE[job["state"]](facts)
    return Explanation(job["job_id"], job["state"], reason, detail, remedy)


def explain_archived(job: Facts, now: datetime) -> Explanation:
    """Explain the state of an archived job from its columns, whose timestamps are datetimes."""
    ago = age((now - job["finished_at"]).total_seconds())
    detail = f"it was {job['state']} {ago} ago, and is archived"
    remedy = f"to run it once more: txqueue repeat {job['job_id']}"
    return Explanation(job["job_id"], job["state"], job["state"], detail, remedy)


Reason = tuple[str, str, str]


def explain_refusal(why: Explanation) -> Explanation:
    """Return why a retry has left a job unchanged, from the explanation of the job."""
    if why.state in ("failed", "cancelled"):
        return why
    if why.state == "done":
        return evolve(why, remedy=f"to run it once more: txqueue repeat {why.job_id}")
    return evolve(why, detail=f"it has not ended: {why.detail}")


def _done(facts: Facts) -> Reason:
    since = _ago(facts, "finished_at")
    return "done", f"it was done {since} ago", "nothing: it has run"


def _failed(facts: Facts) -> Reason:
    job = facts["job"]
    error = job["error"] or "no reason given"
    retry = f"fix the cause, then: txqueue retry {job['job_id']}"
    if error.startswith("poison"):
        detail = f"it is quarantined: {error.removeprefix('poison: ')}"
        return _reopenable(facts, ("quarantine", detail, retry))
    detail = f"it failed for good after {counted(job['attempt'], 'attempt')}: {error}"
    return _reopenable(facts, ("failed", detail, retry))


def _cancelled(facts: Facts) -> Reason:
    job = facts["job"]
    why = f": {job['error']}" if job["error"] else ""
    detail = f"it was cancelled {_ago(facts, 'finished_at')} ago{why}"
    remedy = f"to run it after all: txqueue retry {job['job_id']}"
    return _reopenable(facts, ("cancelled", detail, remedy))


def _reopenable(facts: Facts, reason: Reason) -> Reason:
    """Return the reason of a failed or cancelled job, or else why a retry of it is refused."""
    obstacles = facts.get("reopening") or {}
    job_id, (_, detail, _) = facts["job"]["job_id"], reason
    if parents := obstacles.get("parents"):
        return "parents", *_without_parents(job_id, detail, parents)
    if obstacles.get("has_unnamed_parents"):
        detail = f"{detail}; it cannot run, as one of its parents is not done"
        return "parents", detail, f"to run a copy that waits for none: txqueue repeat {job_id}"
    if holder := obstacles.get("holder"):
        detail = f"{detail}; job {holder} holds its unique key now"
        return "unique", detail, f"once job {holder} has ended: txqueue retry {job_id}"
    return reason


def _without_parents(
    job_id: int, detail: str, parents: Sequence[Mapping[str, Any]]
) -> tuple[str, str]:
    named = ", ".join(f"{each['job_id']} ({each['state']})" for each in parents)
    together = " ".join(str(each["job_id"]) for each in parents)
    return (
        f"{detail}; it cannot run unless these are done: {named}",
        f"retry what it depends on, too: txqueue retry {together} {job_id}",
    )


def _assigned(facts: Facts) -> Reason:
    job = facts["job"]
    node = job["node"] or "an unregistered node"
    if job["incarnation"] not in {each["incarnation"] for each in facts["nodes"]}:
        detail = f"it is assigned to node {node}, which does not renew its lease"
        return "rescue", detail, "nothing: another node rescues it once the lease expires"
    if job["started_at"]:
        detail = f"it has been running on node {node} for {_ago(facts, 'started_at')}"
        return "running", detail, f"nothing; to end it: txqueue cancel {job['job_id']}"
    detail = f"it has been assigned to node {node} for {_ago(facts, 'assigned_at')}"
    if any(
        each["incarnation"] == job["incarnation"] and each.get("missing") for each in facts["nodes"]
    ):
        detail = f"{detail}, but the node does not hold all jobs that are assigned to it"
        return (
            "assigned",
            detail,
            "nothing: the node runs it, or returns it to the queue, within two heartbeats",
        )
    here = [each for each in facts["nodes"] if each["incarnation"] == job["incarnation"]]
    if obstacle := next(filter(None, map(worker_obstacle, here)), None):
        return "assigned", f"{detail}, where it cannot start: {obstacle}", _SEE_LOG
    return "assigned", detail, "nothing: it runs, or starts when a worker of that node has room"


def _waiting(facts: Facts) -> Reason:
    return _WAITING_FOR[facts["job"]["waiting_for"]](facts)


def _for_type(facts: Facts) -> Reason:
    work_type = facts["job"]["work_type"]
    detail = f"no node has ever registered the work type {work_type}"
    return "unknown_type", detail, "start a node whose --app defines it"


def _for_version(facts: Facts) -> Reason:
    job, unread = facts["job"], facts["unread"]
    if untried := [each for each in _capable(facts["nodes"]) if each.get("has_tried") is False]:
        return _for_other_workers(facts, untried)
    tried = [each for each in _capable(facts["nodes"]) if each["has_tried"]]
    names = _list([_with_application(each) for each in tried])
    those = f" (tried by {names})" if names else ""
    left = f"; it fails {_until(facts, unread['until'])}" if unread else ""
    return (
        "unreadable",
        f"no live node can read it{those}: {job['error']}{left}",
        f"start nodes whose {job['work_type']} has these fields;"
        f" if the payload is wrong: txqueue cancel {job['job_id']}",
    )


def _for_other_workers(facts: Facts, untried: Sequence[Mapping[str, Any]]) -> Reason:
    """A worker that cannot read the job may take it before one that can, in the same node."""
    names = _list([_with_application(each) for each in untried])
    tries = f" it is tried again {_until(facts, facts['job']['not_before'])}"
    return (
        "unreadable",
        f"a worker could not read it: {facts['job']['error']}; workers of another version may"
        f" ({names});{tries}",
        "nothing: such a worker runs it; to make all workers of a node alike: restart the node",
    )


def _with_application(node: Mapping[str, Any]) -> str:
    versions = ", ".join(node["applications"] or ())
    return f"{node['name']}, application {versions}" if versions else str(node["name"])


def _for_time(facts: Facts) -> Reason:
    job = facts["job"]
    if facts.get("unread") and not job["attempt"]:
        return _for_version(facts)
    left = _until(facts, job["not_before"])
    now = f"to run it now: txqueue retry {job['job_id']}"
    if (workset := facts.get("workset")) and not job["error"]:
        items = f"the workset {workset['name']} has {workset['remaining']:,} items left"
        detail = f"{items}, held by its other jobs or waiting for a retry; it looks again {left}"
        return "workset", detail, "nothing: it continues by itself; see: txqueue worksets"
    if not job["attempt"]:
        return "time", f"it is not to start before {shown_moment(job['not_before'])}, {left}", now
    said = f": {job['error']}" if job["error"] else ""
    detail = f"{counted(job['attempt'], 'attempt')} failed{said}; the next is due {left}"
    return "backoff", detail, f"nothing; {now}"


def _for_rate(facts: Facts) -> Reason:
    job = facts["job"]
    left = _until(facts, job["not_before"])
    detail = f"its group {job['group']} may start only {_rate(_control(facts, 'group'))}"
    return "rate", f"{detail}; this job may start {left}", _raise("group", job["group"], "--rate")


def _for_parents(facts: Facts) -> Reason:
    parents, left = facts["parents"], facts["parents_left"]
    if not parents:
        return (
            "parents",
            "the jobs it waited for have just ended",
            "nothing: it becomes ready in a moment",
        )
    named = ", ".join(f"{each['job_id']} ({each['state']})" for each in parents)
    more = f" and {left - len(parents)} more" if left > len(parents) else ""
    until = "have ended" if parents[0]["any_end"] else "are done"
    detail = f"it waits until these {until}: {named}{more}"
    return (
        "parents",
        detail,
        f"nothing: it becomes ready then; see: txqueue explain {parents[0]['job_id']}",
    )


def _for_unique(facts: Facts) -> Reason:
    holder = facts["precedes"]
    if holder is None:
        detail = "the job that held its unique key has just ended"
        return "unique", detail, "nothing: it becomes ready in a moment"
    detail = f"it waits for job {holder}, which holds the same unique key"
    return (
        "unique",
        detail,
        f"nothing: it becomes ready when that job ends; see: txqueue explain {holder}",
    )


def _for_group(facts: Facts) -> Reason:
    job = facts["job"]
    group, control = job["group"], _control(facts, "group")
    if control.get("is_paused"):
        return _paused("group", group)
    before = facts["parked_before"]
    queued = f", and {counted(before, 'job')} of the group go first" if before else ""
    if not facts["holders"]:
        detail = f"its group {group} is free{queued}"
        return "group", detail, "nothing: the group's next job starts in a moment"
    held = " and ".join(_held(facts, holder) for holder in facts["holders"])
    first = facts["holders"][0]["job_id"]
    return (
        "group",
        f"its group {group} is busy with {held}{queued}",
        f"nothing: it becomes ready when they end; to end one: txqueue cancel {first}",
    )


def _held(facts: Facts, holder: Mapping[str, Any]) -> str:
    since = age(seconds_between(facts["now"], holder["since"]))
    return f"job {holder['job_id']} on node {holder['node'] or 'unknown'} since {since}"


def _ready(facts: Facts) -> Reason:
    return next(_hindrances(facts), _nothing(facts))


def _hindrances(facts: Facts) -> Iterator[Reason]:
    """Yield the obstacles of a ready job, the gravest first."""
    yield from _without_node(facts)
    yield from _without_worker(facts)
    for kind in ("queue", "tenant", "group"):
        yield from _held_back(facts, kind)
    yield from _busy_group(facts)
    yield from _without_room(facts)


def _without_node(facts: Facts) -> Iterator[Reason]:
    job, nodes = facts["job"], facts["nodes"]
    queue, work_type = job["queue"], job["work_type"]
    serving, knowing = _names(nodes, "serves"), _names(nodes, "knows")
    reason = "no_capable_node"
    if not nodes:
        yield reason, "no node runs", "start one: twistd -n txqueue --app MODULE"
    elif not serving:
        yield reason, f"no live node serves the queue {queue}", f"start one with --queues {queue}"
    elif not knowing:
        detail = f"no live node has the work type {work_type}"
        yield reason, detail, "start one whose --app defines it"
    elif not _capable(nodes):
        detail = (
            f"no live node both serves the queue {queue} ({_list(serving)} do)"
            f" and has the work type {work_type} ({_list(knowing)} do)"
        )
        yield reason, detail, f"start one with --queues {queue} whose --app defines it"
    elif all(each.get("has_tried") for each in _capable(nodes)):
        yield _for_version(facts)
    elif not _working(nodes):
        names = _list(sorted(each["name"] for each in _capable(nodes)))
        detail = f"every node that could run it is draining: {names}"
        yield reason, detail, "start another node, or: txqueue undrain NODE"


def _without_worker(facts: Facts) -> Iterator[Reason]:
    found = {each["name"]: worker_obstacle(each) for each in _working(facts["nodes"])}
    obstacles = [each for each in found.values() if each is not None]
    if obstacles and len(obstacles) == len(found):
        why = "; ".join(sorted(set(obstacles)))
        detail = f"no worker of the nodes that could run it ({_list(sorted(found))}) can: {why}"
        yield "no_worker", detail, _SEE_LOG


def _held_back(facts: Facts, kind: str) -> Iterator[Reason]:
    control, key = _control(facts, kind), facts["job"][kind]
    if control.get("is_paused"):
        yield _paused(kind, key)
    most = control.get("concurrency")
    if most is not None and control["running"] >= most:
        detail = f"the {kind} {key} runs as many jobs as its limit allows ({counted(most, 'job')})"
        yield (
            "limit",
            detail,
            f"nothing: it starts when one of them ends; {_raise(kind, key, '--concurrency')}",
        )
    if control.get("opens_in") is not None:
        detail = f"the {kind} {key} may start only {_rate(control)}"
        left = f"the next in {control['opens_in']:.1f} s"
        yield "rate", f"{detail}; {left}", _raise(kind, key, "--rate")


def _busy_group(facts: Facts) -> Iterator[Reason]:
    if facts["holders"] and "concurrency" not in _control(facts, "group"):
        yield _for_group(facts)


def _without_room(facts: Facts) -> Iterator[Reason]:
    job, nodes = facts["job"], _working(facts["nodes"])
    least = min((each["load"] for each in nodes), default=0.0)
    reserve = _control(facts, "queue").get("reserve") or 0.0
    open_weight = max((each["capacity"] * (1 - reserve) for each in nodes), default=0.0)
    if reserve and job["priority"] < HIGH and job["weight"] > open_weight and least > 0:
        detail = (
            f"its weight of {job['weight']} is more than the reserve of the queue {job['queue']}"
            f" ({reserve:.0%}) leaves on any node: it starts on a node that runs nothing else"
        )
        remedy = f"nothing: it starts on an idle node; or: txqueue limit {job['queue']} --reserve 0"
        yield "reserve", detail, remedy
    elif reserve and job["priority"] < HIGH and least >= 1 - reserve:
        detail = (
            f"the queue {job['queue']} keeps {reserve:.0%} of each node for priority {HIGH} and up,"
            f" and the least loaded node is at {least:.0%}"
        )
        yield (
            "reserve",
            detail,
            f"nothing: it starts when there is room; or: txqueue priority {HIGH} {job['job_id']}",
        )
    elif least >= 1 or facts["ahead"]:
        ahead = (
            f"{counted(facts['ahead'], 'job')} of its queue go first"
            if facts["ahead"]
            else "it is next"
        )
        detail = f"{ahead}, and the least loaded of {counted(len(nodes), 'node')} is at {least:.0%}"
        yield "no_free_capacity", detail, "nothing: it starts in its turn; or add nodes or workers"


def _nothing(_: Facts) -> Reason:
    return "next", "nothing delays it", "nothing: a node claims it in a moment"


_BY_STATE: Mapping[str, Callable[[Facts], Reason]] = {
    "waiting": _waiting,
    "ready": _ready,
    "assigned": _assigned,
    "done": _done,
    "failed": _failed,
    "cancelled": _cancelled,
}
_WAITING_FOR: Mapping[str, Callable[[Facts], Reason]] = {
    "type": _for_type,
    "version": _for_version,
    "time": _for_time,
    "rate": _for_rate,
    "group": _for_group,
    "parents": _for_parents,
    "unique": _for_unique,
}


def _paused(kind: str, key: str) -> Reason:
    option = "" if kind == "queue" else f"--{kind} "
    return "pause", f"the {kind} {key} is paused", f"txqueue resume {option}{key}"


def _control(facts: Facts, kind: str) -> Mapping[str, Any]:
    return next((each for each in facts["controls"] if each["kind"] == kind), {})


def _capable(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in nodes if each["serves"] and each["knows"]]


def _working(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in _capable(nodes) if each["state"] == "alive"]


def _names(nodes: Sequence[Mapping[str, Any]], what: str) -> list[str]:
    return [each["name"] for each in nodes if each[what]]


def _list(names: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _raise(kind: str, key: str, option: str) -> str:
    return f"to allow more: txqueue limit {kind} {key} {option} N"


def _rate(control: Mapping[str, Any]) -> str:
    return f"{control.get('rate') or 0:g} jobs a second"


def _ago(facts: Facts, column: str) -> str:
    return age(seconds_between(facts["now"], facts["job"][column]))


def _until(facts: Facts, moment: str) -> str:
    left = seconds_between(moment, facts["now"])
    if left == float("inf"):
        return "never"
    return f"in {age(left)}" if left >= 1 else "about now"
