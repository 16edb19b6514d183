"""Whether there are nodes that could run a job, how much weight these can take, and workers to
start it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final

from txqueue.model.humanize import counted, joined, queues_option
from txqueue.policy.findings.obstacles import (
    SEE_LOG,
    HeldType,
    WorkerObstacle,
    claim_obstacle,
    no_node,
    remedy_of_right,
    threads_left,
    to_undrain,
    unknown,
    unserved,
    worker_obstacle,
)
from txqueue.policy.findings.reason import Blocker, Facts, Gravity, control, until

Node = Mapping[str, Any]

HIGH: Final = 7
"""Jobs of this priority or higher may use a queue's reserve."""


def free_weight(node: Node) -> int:
    """The weight that a node can take: what it said, and what has changed since."""
    room = node.get("room")
    if room is None:
        unused: float = node["capacity"] * (1 - node["load"])
        return max(0, round(unused))
    free: int = room["free"] + room["weight"] - node["held"]
    return max(0, free)


def largest_free(node: Node) -> int:
    """The weight of the heaviest job that a worker of the node can take."""
    room = node.get("room")
    if room is None:
        return free_weight(node)
    return min(int(room["largest"] + max(0, room["weight"] - node["held"])), free_weight(node))


def kept_weight(facts: Facts, node: Node) -> int:
    """The weight of a node that the job's queue keeps for jobs of high priority."""
    reserve = control(facts, "queue").get("reserve") or 0.0
    if not reserve:
        return 0
    tenant = control(facts, "tenant")
    # In the turn of the reserve, jobs of a tenant with a limit are not counted.
    is_limited = tenant.get("concurrency") is not None or tenant.get("rate") is not None
    if facts["job"]["priority"] >= HIGH and not is_limited:
        return 0
    capacity: int = node["capacity"]
    return max(0, min(ceil(reserve * capacity), capacity - 1))


def closed_weight(facts: Facts, node: Node) -> int:
    """The free weight that the job may not take: what its queue keeps, and what is beyond that."""
    kept = kept_weight(facts, node)
    return kept + ahead_weight(node) if kept else 0


def ahead_weight(node: Node) -> int:
    """The weight that the node may hold beyond what it runs, as it ends jobs quickly."""
    return int((node.get("room") or {}).get("ahead") or 0)


def job_weight(facts: Facts, node: Node) -> int:
    """The job's weight; one that is heavier than a worker counts as what the worker has."""
    return capped(facts["job"]["weight"], node)


def capped(weight: int, node: Node) -> int:
    """Return a weight; of one that is more than a worker has, what the worker has."""
    of_worker = (node.get("room") or {}).get("capacity") or node["capacity"]
    return int(min(weight, of_worker))


def fits(facts: Facts, node: Node) -> bool:
    """Tell whether the node has room for the job, beside what its queue keeps for others."""
    weight, free = job_weight(facts, node), free_weight(node)
    if not 0 < weight <= largest_free(node):
        return False
    return (
        weight <= free - closed_weight(facts, node) or free - ahead_weight(node) >= node["capacity"]
    )


def weight_to_fill(facts: Facts, node: Node) -> int:
    """The least weight of other jobs that leaves a node no room for this one, which now fits.

    Nor for the heaviest of those before it: claims of a node do not overtake one that does not fit.
    """
    weight = max(job_weight(facts, node), capped(facts["ahead"].get("heaviest") or 0, node))
    free = free_weight(node)
    if weight > largest_free(node):
        return 0
    workers = node.get("workers") or 1
    of_workers = max(largest_free(node) - weight + 1, free - workers * (weight - 1))
    return max(1, min(free - closed_weight(facts, node) - weight + 1, of_workers))


def least_load(nodes: Sequence[Node]) -> float:
    """The load of the least loaded node, by the jobs that it holds now."""
    return min((max(node["load"], node["held"] / node["capacity"]) for node in nodes), default=0.0)


# A job that was running when more processes than this died runs in a process without other jobs.
FEW_DEATHS = 1
_KEY = "TXQUEUE_PAYLOAD_KEY"


def capable(facts: Facts) -> list[Node]:
    """Return the live nodes that serve the job's queue and have its type."""
    return [node for node in facts["nodes"] if node["serves"] and node["knows"]]


def working(facts: Facts) -> list[Node]:
    """Return the nodes that could run the job, have not tried to, and are not draining."""
    return [
        node for node in capable(facts) if node["state"] == "alive" and not node.get("has_tried")
    ]


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
    others = [node["name"] for node in working(facts) if not node.get("lacks_its_key")]
    why = (job["error"] or "").partition("; ")[0]
    if others:
        yield Blocker(
            "no_key",
            f"{joined(tried)} had no key that it needs: {why}; another node ({joined(others)}) may",
            f"restart {joined(tried)} with that key, too, in {_KEY}: it is tried again"
            f" {until(facts, job['not_before'])}, by chance there",
        )
    else:
        yield Blocker(
            "no_key",
            f"no live node has a key that it needs (tried by {joined(tried)}): {why}",
            f"restart all of them with that key, too, in {_KEY}, and it runs within a minute; if"
            f" the key is lost: txqueue cancel {job['job_id']}",
            Gravity.FAULT,
        )


def while_held(facts: Facts) -> Iterator[Blocker]:
    """Yield that the deploy guard holds the job's type on the nodes that could run it."""
    left = [node for node in facts["nodes"] if node["serves"] and not node["knows"]]
    for row in () if capable(facts) else facts.get("held") or ():
        held = HeldType(**row)
        if any(held.application in (node["applications"] or ()) for node in left):
            yield Blocker("held", str(held), held.remedy, Gravity.ACT, "held_type")


def without_node(facts: Facts) -> Iterator[Blocker]:
    """Yield what keeps each live node from the job, whether it has tried to read it or not."""
    queue, work_type = facts["job"]["queue"], facts["job"]["work_type"]
    serving, knowing = _names(facts, "serves"), _names(facts, "knows")
    yield from without_key(facts)
    if not facts["nodes"]:
        yield _no_node(*no_node(_silent(facts, "serves")), "no_node")
    elif (deprived := _deprived(facts)) and not capable(facts):
        nodes = [f"node {node['name']}: {node['lacking_right']}" for node in deprived]
        what = "the database refuses the statements of the nodes that could run it"
        yield _no_node(f"{what}: {joined(nodes)}", remedy_of_right(deprived[0]), "dead_node")
    elif not serving:
        yield _no_node(*unserved(queue, _silent(facts, "serves")), "unserved_queue")
    elif not knowing:
        yield _no_node(*unknown(work_type, _silent(facts, "knows")), "unknown_type")
    elif not capable(facts):
        yield _no_node(
            f"no live node both serves the queue {queue} ({_do(serving)})"
            f" and has the work type {work_type} ({_do(knowing)})",
            f"start a node with {queues_option(queue)} whose --app defines it",
        )


def _deprived(facts: Facts) -> list[Node]:
    """Return the silent nodes that could run the job, but for a right that each has lost."""
    silent = facts.get("silent") or ()
    return [each for each in silent if each["serves"] and each["knows"] and each["lacking_right"]]


def _silent(facts: Facts, did: str) -> Node | None:
    """Return the silent node that last did what no live one does."""
    return next((node for node in facts.get("silent") or () if node[did]), None)


def without_worker(facts: Facts) -> Iterator[Blocker]:
    """Yield what keeps the nodes that could run the job from starting any."""
    nodes = working(facts)
    if not nodes:
        names = sorted(node["name"] for node in capable(facts))
        what = f"every node that could run it is draining: {joined(names)}"
        yield Blocker("no_capable_node", what, to_undrain(names), Gravity.ACT)
        return
    obstacle_by_node = {node["name"]: _obstacle(facts, node) for node in nodes}
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
