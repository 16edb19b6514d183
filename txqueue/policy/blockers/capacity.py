"""Whether the nodes could take a job now: the nodes, their workers, and the room in these."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from attrs import evolve

from txqueue.model.humanize import age, counted, first_of, joined
from txqueue.policy.blockers.node_room import (
    HIGH,
    Node,
    capped,
    closed_weight,
    fits,
    free_weight,
    job_weight,
    kept_weight,
    largest_free,
    least_load,
    weight_to_fill,
)
from txqueue.policy.blockers.reason import (
    HEAVY_HEAD,
    Blocker,
    Facts,
    Gravity,
    control,
    seconds_between,
    until,
)
from txqueue.policy.facts.obstacles import (
    SEE_LOG,
    WorkerObstacle,
    because_silent,
    claim_obstacle,
    remedy_if_silent,
    remedy_of_right,
    threads_left,
    to_undrain,
    worker_obstacle,
)

__all__ = [
    "capable",
    "holders_of",
    "is_suspect",
    "no_process_for_suspects",
    "without_its_key",
    "without_key",
    "without_node",
    "without_room",
    "without_worker",
]

# A job that was running when more processes than this died runs in a process without other jobs.
FEW_DEATHS = 1
# Seconds from which the longest run is named, where there is no room.
LONG = 60.0
_ADD = "start a node whose --app defines it"
_KEY = "TXQUEUE_PAYLOAD_KEY"


def capable(facts: Facts) -> list[Node]:
    """Return the live nodes that serve the job's queue and have its type."""
    return [node for node in facts["nodes"] if node["serves"] and node["knows"]]


def holders_of(facts: Facts) -> list[Node]:
    """Return the live node to which the job is assigned."""
    incarnation = facts["job"]["incarnation"]
    return [node for node in facts["nodes"] if node["incarnation"] == incarnation]


def is_suspect(facts: Facts) -> bool:
    """Tell whether the job runs in a process without other jobs."""
    return bool(facts["job"]["deaths"] > FEW_DEATHS)


def without_key(facts: Facts) -> Iterator[Blocker]:
    """Yield what is wrong if the only nodes that define the type cannot decrypt its payloads."""
    lacking = [node["name"] for node in facts["nodes"] if node.get("lacks_key")]
    if lacking and not _names(facts, "knows"):
        yield Blocker(
            "no_key",
            f"payloads of {facts['job']['work_type']} are encrypted, and no node that defines it"
            f" ({joined(lacking)}) has {_KEY}",
            f"restart them with the key in {_KEY}",
            Gravity.FAULT,
        )


def without_its_key(facts: Facts) -> Iterator[Blocker]:
    """Yield what is wrong if nodes have tried the job, and had no key that it needs."""
    job = facts["job"]
    tried = [node["name"] for node in capable(facts) if node.get("lacks_its_key")]
    if not tried:
        return
    others = [node["name"] for node in _working(facts) if not node.get("lacks_its_key")]
    why = (job["error"] or "").partition("; ")[0]
    if others:
        yield Blocker(
            "no_key",
            f"{joined(tried)} had no key that it needs: {why}; another node ({joined(others)}) may",
            f"nothing: it is tried again {until(facts, job['not_before'])}, by chance there",
        )
    else:
        yield Blocker(
            "no_key",
            f"no live node has a key that it needs (tried by {joined(tried)}): {why}",
            f"restart nodes with that key, too, in {_KEY}, and it is tried within a minute; if the"
            f" key is lost: txqueue cancel {job['job_id']}",
            Gravity.FAULT,
        )


def without_node(facts: Facts) -> Iterator[Blocker]:
    """Yield what keeps each live node from the job, whether it has tried to read it or not."""
    queue, work_type = facts["job"]["queue"], facts["job"]["work_type"]
    serving, knowing = _names(facts, "serves"), _names(facts, "knows")
    yield from without_key(facts)
    start = f"start one with --queues {shlex.quote(queue)}"
    if (deprived := _deprived(facts)) and not capable(facts):
        nodes = [f"node {node['name']}: {node['lacking_right']}" for node in deprived]
        what = "the database refuses the statements of the nodes that could run it"
        yield _no_node(f"{what}: {joined(nodes)}", remedy_of_right(deprived[0]), "dead_node")
    elif not facts["nodes"]:
        start = "start one: twistd -n txqueue --app MODULE"
        yield _unless_silent(facts, "no node runs", start, "serves", "blocked_jobs")
    elif not serving:
        what = f"no live node serves the queue {queue}"
        yield _unless_silent(facts, what, start, "serves", "unserved_queue")
    elif not knowing:
        what = f"no live node has the work type {work_type}"
        yield _unless_silent(facts, what, _ADD, "knows", "unknown_type")
    elif not capable(facts):
        yield _no_node(
            f"no live node both serves the queue {queue} ({_do(serving)})"
            f" and has the work type {work_type} ({_do(knowing)})",
            f"{start} whose --app defines it",
        )


def _deprived(facts: Facts) -> list[Node]:
    """Return the silent nodes that could run the job, but for a right that each has lost."""
    silent = facts.get("silent") or ()
    return [each for each in silent if each["serves"] and each["knows"] and each["lacking_right"]]


def _unless_silent(facts: Facts, what: str, start: str, did: str, kind: str) -> Blocker:
    """Return that no live node does what is needed, with the silent one that did it last."""
    last = next((node for node in facts.get("silent") or () if node[did]), None)
    seconds = seconds_between(facts["now"], last["heartbeat_at"]) if last else 0.0
    return _no_node(f"{what}{because_silent(last, seconds)}", remedy_if_silent(last, start), kind)


def without_worker(facts: Facts) -> Iterator[Blocker]:
    """Yield what keeps the nodes that could run the job from starting any."""
    working = _working(facts)
    if not working:
        names = sorted(node["name"] for node in capable(facts))
        what = f"every node that could run it is draining: {joined(names)}"
        yield Blocker("no_capable_node", what, to_undrain(names), Gravity.ACT)
        return
    obstacle_by_node = {node["name"]: _obstacle(facts, node) for node in working}
    obstacles = [obstacle for obstacle in obstacle_by_node.values() if obstacle is not None]
    if len(obstacles) < len(obstacle_by_node):
        return
    why = "; ".join(sorted({obstacle.what for obstacle in obstacles}))
    where = f"the nodes that could run it ({joined(sorted(obstacle_by_node))})"
    if any(obstacle.is_passing for obstacle in obstacles):
        yield Blocker(
            "no_worker",
            f"no worker of {where} can start it yet: {why}",
            "nothing: it starts when one can; or add nodes or workers",
        )
    else:
        what = f"no worker of {where} can start a job: {why}"
        remedy = next((obstacle.remedy for obstacle in obstacles if obstacle.remedy), SEE_LOG)
        yield Blocker("no_worker", what, remedy, Gravity.FAULT)


def without_room(facts: Facts) -> Iterator[Blocker]:
    """Yield what fills the nodes: the job's weight, the reserve of its queue, or jobs before it."""
    nodes = _working(facts)
    if is_suspect(facts):
        yield from _suspect(facts, nodes)
    if any(fits(facts, node) for node in nodes):
        yield from _behind_others(facts, nodes)
    elif _kept_by_reserve(facts, nodes):
        yield _reserve(facts, nodes)
    else:
        yield _full(facts, nodes)


def _obstacle(facts: Facts, node: Node) -> WorkerObstacle | None:
    """Return why no worker of a node can start the job, however many others end."""
    obstacle = claim_obstacle(node) or worker_obstacle(node)
    if obstacle is not None and not obstacle.is_passing:
        return obstacle
    # What a worker that starts brings may all be kept.
    return _all_kept(facts, node) or obstacle or _too_heavy(facts, node)


def _too_heavy(facts: Facts, node: Node) -> WorkerObstacle | None:
    """Return that threads of ended jobs leave no worker with enough room for the job."""
    threads = threads_left(node)
    if threads is None or (weight := job_weight(facts, node)) <= node["room"]["attainable"]:
        return None
    is_passing = bool((node.get("closed") or {}).get("starting"))
    return WorkerObstacle(
        f"{threads} of the weight of its workers, and its own is {weight:,}", is_passing
    )


def _all_kept(facts: Facts, node: Node) -> WorkerObstacle | None:
    """Return that the reserve of the job's queue takes all that the node could have free."""
    kept, closed, threads = kept_weight(facts, node), node.get("closed") or {}, threads_left(node)
    unable = closed.get("blocked", 0) + closed.get("stuck", 0)
    if not kept or not (unable or threads):
        return None
    left = (node["workers"] - unable) * node["room"]["capacity"]
    left -= node["left"]["weight"] if threads else 0
    if job_weight(facts, node) <= left - kept:
        return None
    why = [f"{unable} can start no job"] if unable else []
    why += [f"{threads} of their weight"] if threads else []
    return WorkerObstacle(
        f"of {counted(node['workers'], 'worker')} {', '.join(why)}, and the queue"
        f" {facts['job']['queue']} keeps the room of the others for priority {HIGH} and up"
    )


def _no_node(detail: str, remedy: str, kind: str = "blocked_jobs") -> Blocker:
    return Blocker("no_capable_node", detail, remedy, Gravity.FAULT, kind)


def _names(facts: Facts, what: str) -> list[str]:
    return [node["name"] for node in facts["nodes"] if node[what]]


def _do(names: Sequence[str]) -> str:
    return f"{joined(names)} {'does' if len(names) == 1 else 'do'}"


def _working(facts: Facts) -> list[Node]:
    return [
        node for node in capable(facts) if node["state"] == "alive" and not node.get("has_tried")
    ]


def _takes_suspects(node: Node) -> bool:
    return bool((node.get("room") or {}).get("takes_suspects", True))


def _suspect(facts: Facts, nodes: Sequence[Node]) -> Iterator[Blocker]:
    what = (
        f"it was running when {facts['job']['deaths']} processes died, and so runs in a process"
        " without other jobs"
    )
    if not any(map(_takes_suspects, nodes)):
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
            f" txqueue limit queue {shlex.quote(job['queue'])} --reserve 0",
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
        if not ahead and _has_waited(facts) >= LONG:
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


def _has_waited(facts: Facts) -> float:
    job = facts["job"]
    return min(seconds_between(facts["now"], job[since]) for since in ("enqueued_at", "not_before"))


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
