"""Whether the nodes that could run a job have room now, and why an assigned job does not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from txqueue.model.humanize import age, counted, first_of, joined, limit_command
from txqueue.policy.findings.capacity import (
    HIGH,
    Node,
    capped,
    closed_weight,
    fits,
    free_weight,
    holders_of,
    is_suspect,
    job_weight,
    kept_weight,
    largest_free,
    least_load,
    weight_to_fill,
    working,
)
from txqueue.policy.findings.limits import locked
from txqueue.policy.findings.obstacles import SEE_LOG, threads_left, worker_obstacle
from txqueue.policy.findings.reason import (
    HEAVY_HEAD,
    Blocker,
    Facts,
    Gravity,
    ago,
    control,
    seconds_between,
)

# Seconds from which the longest run is named, where there is no room.
LONG = 60.0


def without_room(facts: Facts) -> Iterator[Blocker]:
    """Yield what fills the nodes: the job's weight, the reserve of its queue, or jobs before it."""
    nodes = working(facts)
    if is_suspect(facts):
        yield from _suspect(facts, nodes)
    if any(fits(facts, node) for node in nodes):
        yield from _behind_others(facts, nodes)
    elif _kept_by_reserve(facts, nodes):
        yield _reserve(facts, nodes)
    else:
        yield _full(facts, nodes)


def _suspect(facts: Facts, nodes: Sequence[Node]) -> Iterator[Blocker]:
    what = (
        f"it was running when {facts['job']['deaths']} processes died, and so runs in a process"
        " without other jobs"
    )
    if not any((node.get("room") or {}).get("takes_suspects", True) for node in nodes):
        if (stopped := no_process_for_suspects(nodes)) is not None:
            yield evolve(stopped, detail=f"{what}; {stopped.detail}")
            return
        detail = f"{what}; the nodes that could run it run as many such processes as they may"
        yield Blocker("suspect", detail, "nothing: it starts when one of those ends; or add nodes")
    elif facts["ahead"]["suspects"]:
        detail = f"{what}; {first_of(facts['ahead']['suspects'], 'such job')}"
        yield Blocker("suspect", detail, "nothing: it starts in its turn; or add nodes")


def no_process_for_suspects(nodes: Sequence[Node]) -> Blocker | None:
    """Return that the processes for suspects of all nodes can start no other, whatever ends."""
    keepers = [(node.get("room") or {}).get("suspects_behind") for node in nodes]
    if not keepers or not all(keepers):
        return None
    names = joined([f"job {job_id}" for ids in keepers for job_id in ids or ()])
    detail = f"all such processes ({joined([node['name'] for node in nodes])}) are kept by {names}"
    return Blocker(
        "suspect",
        f"{detail}, and do not answer or have no thread left",
        f"see: txqueue explain {(keepers[0] or [0])[0]}; --kill-stuck replaces such processes",
        Gravity.FAULT,
    )


def _kept_by_reserve(facts: Facts, nodes: Sequence[Node]) -> bool:
    return any(
        kept_weight(facts, node)
        and job_weight(facts, node) <= min(largest_free(node), free_weight(node))
        for node in nodes
    )


def _reserve(facts: Facts, nodes: Sequence[Node]) -> Blocker:
    job = facts["job"]
    part = f"{control(facts, 'queue')['reserve']:.0%}"
    if all(job_weight(facts, node) > node["capacity"] - kept_weight(facts, node) for node in nodes):
        return Blocker(
            "reserve",
            f"its weight of {job['weight']} is more than the reserve of the queue {job['queue']}"
            f" ({part}) leaves on any node: it starts on a node that runs nothing else",
            "nothing: it starts on an idle node; or:"
            f" {limit_command('queue', job['queue'], '--reserve 0')}",
        )
    return Blocker(
        "reserve",
        f"the queue {job['queue']} keeps {part} of each node for priority {HIGH} and up, and the"
        f" least loaded node is at {least_load(nodes):.0%}",
        f"nothing: it starts when there is room; or: txqueue priority {HIGH} {job['job_id']}",
    )


def _full(facts: Facts, nodes: Sequence[Node]) -> Blocker:
    weight, ahead = facts["job"]["weight"], facts["ahead"]["jobs"]
    first = first_of(ahead) if ahead else "it is next"
    largest = max(map(largest_free, nodes))
    if largest:
        first += f", its weight is {weight}, and no worker has more than {largest} free"
        moments = [facts["job"][since] for since in ("enqueued_at", "not_before")]
        if not ahead and all(seconds_between(facts["now"], since) >= LONG for since in moments):
            return _heavy_head(f"{first}{_kept_by_threads(nodes)}")
    where = f"the least loaded of {counted(len(nodes), 'node')} is at {least_load(nodes):.0%}"
    since = min((node["busy_since"] for node in nodes if node.get("busy_since")), default=None)
    longest = seconds_between(facts["now"], since) if since else 0.0
    long = f"; the longest of their jobs has run for {age(longest)}" if longest >= LONG else ""
    return Blocker(
        "no_free_capacity",
        f"{first}, and {where}{long}{_kept_by_threads(nodes)}",
        "nothing: it starts in its turn; or add nodes or workers; to see what runs:"
        " txqueue jobs --state assigned",
    )


def _heavy_head(detail: str) -> Blocker:
    """Return that a job has long waited for room, and others for it, though there is room."""
    return Blocker(
        "no_free_capacity",
        f"{detail}: others wait behind it, whatever their weight",
        "nothing: it starts once a worker has that room; to see what runs: txqueue jobs --state"
        " assigned; heavy jobs are best in a queue with nodes of their own",
        kind=HEAVY_HEAD,
    )


def _kept_by_threads(nodes: Sequence[Node]) -> str:
    """What threads of ended jobs keep of the nodes' room, to be added to a sentence."""
    keeping = [
        f"; on node {node['name']}, {threads} of the weight of {node['capacity']:,}"
        for node in nodes
        if (threads := threads_left(node))
    ]
    return "".join(keeping[:3])


def _behind_others(facts: Facts, nodes: Sequence[Node]) -> Iterator[Blocker]:
    """Yield the jobs before it, unless there is room for it wherever these start."""
    ahead = facts["ahead"]
    enough = sum(weight_to_fill(facts, node) for node in nodes if fits(facts, node))
    if ahead["jobs"] and ahead["weight"] >= enough:
        free = sum(free_weight(node) - closed_weight(facts, node) for node in nodes)
        heaviest = ahead.get("heaviest") or 0
        largest = max(map(largest_free, nodes))
        heavy = f"; one weighs {heaviest:,}, and no worker has more than {largest:,} free"
        is_heavy = all(capped(heaviest, node) > largest_free(node) for node in nodes)
        yield Blocker(
            "no_free_capacity",
            f"{first_of(ahead['jobs'])}, and the nodes have room for a weight of"
            f" {max(0, free):,}{heavy if is_heavy else ''}{_kept_by_threads(nodes)}",
            "nothing: it starts in its turn; or add nodes or workers",
        )


_BLOCKING = (
    "else it runs until its handler returns; --kill-stuck ends such workers, and Runtime.THREAD"
    " keeps a handler from blocking other jobs"
)
_RESTART = "to end the run and start it again: txqueue restart"
_BLOCKED = "nothing: it goes on once the handler that blocks its worker returns"
_ENDING = (
    "nothing: its node is notified by its next heartbeat; then a coroutine ends where it waits,"
    " and a function in a thread is left behind after 15 s"
)
_KILLED = "nothing: its node kills the worker after its next heartbeat, and the others run again"
_AFTER_BLOCKER = "nothing: the run ends once the handler that blocks its worker returns"


def assigned(facts: Facts) -> Blocker:
    """Return where a job runs, or what keeps it from starting, and what an operator has asked."""
    found, request = _assigned(facts), facts.get("request")
    if request is None or found.reason not in ("running", "assigned"):
        return found
    act = "restarted" if request["is_restart"] else "cancelled"
    since = age(seconds_between(facts["now"], request["at"]))
    detail = f"{found.detail}; {request['who']} {act} it {since} ago, and the run has not ended yet"
    return evolve(found, detail=detail, remedy=_remedy_of_request(facts))


def _remedy_of_request(facts: Facts) -> str:
    """Return what ends a run that an operator has cancelled or restarted."""
    [node] = holders_of(facts)
    job_id = facts["job"]["job_id"]
    if job_id in (*(node.get("blocking") or ()), *(node.get("maybe_blocking") or ())):
        return _KILLED
    if (culprit := (node.get("beside") or {}).get(str(job_id))) is not None:
        return f"{_AFTER_BLOCKER}; see: txqueue explain {culprit}"
    return _ENDING


def _assigned(facts: Facts) -> Blocker:
    job = facts["job"]
    node = job["node"] or "an unregistered node"
    if not holders_of(facts):
        detail = f"it is assigned to node {node}, which does not renew its lease"
        if not facts["nodes"]:
            remedy = "start a node, which rescues it: txqueue node --app MODULE"
            what = f"{detail}, and no other node runs"
            return Blocker("rescue", what, remedy, Gravity.FAULT, "no_node")
        return Blocker("rescue", detail, "nothing: another node rescues it once the lease expires")
    if (held := next(locked(facts), None)) is not None:
        return evolve(held, detail=f"{held.detail}; its node cannot write how it ends")
    if job["started_at"]:
        detail = f"it has been running on node {node} for {ago(facts, 'started_at')}"
        if (blocked := _in_blocked_worker(facts, detail)) is not None:
            return blocked
        remedy = f"nothing; if it hangs, {_RESTART} {job['job_id']}; to end it: txqueue cancel"
        return Blocker("running", detail, f"{remedy} {job['job_id']}")
    return _unstarted(facts, f"it has been assigned to node {node} for {ago(facts, 'assigned_at')}")


def _in_blocked_worker(facts: Facts, detail: str) -> Blocker | None:
    """Return that a job runs in a worker that does not answer, and whether it is the reason."""
    [node] = holders_of(facts)
    job_id = facts["job"]["job_id"]
    detail = f"{detail} in a worker that does not answer"
    if job_id in (node.get("blocking") or ()):
        remedy = f"{_RESTART} {job_id}; to end it: txqueue cancel {job_id}; {_BLOCKING}"
        return Blocker("running", f"{detail}: it blocks the worker", remedy, Gravity.FAULT)
    if job_id in (maybe := node.get("maybe_blocking") or ()):
        others = "the job" if len(maybe) == 2 else f"one of {counted(len(maybe) - 1, 'job')}"
        detail = f"{detail}: it, or {others} beside it, blocks the worker"
        return Blocker("running", detail, _BLOCKED, Gravity.FAULT)
    if (culprit := (node.get("beside") or {}).get(str(job_id))) is not None:
        detail = f"{detail}: job {culprit} blocks the worker"
        remedy = f"{_BLOCKED}; see: txqueue explain {culprit}"
        return Blocker("running", detail, remedy, Gravity.FAULT)
    return None


def _unstarted(facts: Facts, detail: str) -> Blocker:
    [node] = holders_of(facts)
    if node.get("missing"):
        detail = f"{detail}, but the node does not hold all jobs that are assigned to it"
        remedy = "nothing: the node runs it, or returns it to the queue, within two heartbeats"
        return Blocker("assigned", detail, remedy)
    if (blocked := _in_blocked_worker(facts, f"{detail}, and runs there")) is not None:
        return blocked
    if is_suspect(facts):
        detail = (
            f"{detail}; it was running when {facts['job']['deaths']} processes died, and so runs in"
            " a process without other jobs"
        )
        if (stopped := no_process_for_suspects([node])) is not None:
            return evolve(stopped, reason="assigned", detail=f"{detail}; {stopped.detail}")
        return Blocker("assigned", detail, "nothing: it starts once that process has started")
    obstacle = worker_obstacle(node)
    if obstacle is not None and not obstacle.is_passing:
        detail = f"{detail}, where it cannot start: {obstacle.what}"
        return Blocker("assigned", detail, obstacle.remedy or SEE_LOG, Gravity.FAULT)
    return Blocker(
        "assigned", detail, "nothing: it runs, or starts when a worker of that node has room"
    )
