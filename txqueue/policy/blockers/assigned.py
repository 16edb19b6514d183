"""Why a job that is assigned to a node does not run, or that it does."""

from __future__ import annotations

from txqueue.policy.blockers.capacity import SEE_LOG, holders_of, is_suspect
from txqueue.policy.blockers.reason import Blocker, Facts, Gravity, ago
from txqueue.policy.facts.warnings import worker_obstacle

__all__ = ["assigned"]


_BLOCKING = (
    "nothing: it runs until its handler returns; --kill-stuck ends such workers, and Runtime.THREAD"
    " keeps a handler from blocking other jobs"
)


def assigned(facts: Facts) -> Blocker:
    """Return where a job runs, or what keeps its node from starting it."""
    job = facts["job"]
    node = job["node"] or "an unregistered node"
    if not holders_of(facts):
        detail = f"it is assigned to node {node}, which does not renew its lease"
        if not facts["nodes"]:
            remedy = "start a node, which rescues it: twistd -n txqueue --app MODULE"
            return Blocker("rescue", f"{detail}, and no other node runs", remedy, Gravity.FAULT)
        return Blocker("rescue", detail, "nothing: another node rescues it once the lease expires")
    if job["started_at"]:
        detail = f"it has been running on node {node} for {ago(facts, 'started_at')}"
        return Blocker("running", detail, f"nothing; to end it: txqueue cancel {job['job_id']}")
    return _unstarted(facts, f"it has been assigned to node {node} for {ago(facts, 'assigned_at')}")


def _unstarted(facts: Facts, detail: str) -> Blocker:
    [node] = holders_of(facts)
    if node.get("missing"):
        detail = f"{detail}, but the node does not hold all jobs that are assigned to it"
        remedy = "nothing: the node runs it, or returns it to the queue, within two heartbeats"
        return Blocker("assigned", detail, remedy)
    if facts["job"]["job_id"] in (node.get("blocking") or ()):
        detail = f"{detail}, and runs there in a worker that does not answer: it blocks the worker"
        return Blocker("running", detail, _BLOCKING)
    if is_suspect(facts):
        detail = (
            f"{detail}; it was running when {facts['job']['deaths']} processes died, and so runs in"
            " a process without other jobs"
        )
        return Blocker("assigned", detail, "nothing: it starts once that process has started")
    obstacle = worker_obstacle(node)
    if obstacle is not None and not obstacle.is_passing:
        detail = f"{detail}, where it cannot start: {obstacle.what}"
        return Blocker("assigned", detail, SEE_LOG, Gravity.FAULT)
    return Blocker(
        "assigned", detail, "nothing: it runs, or starts when a worker of that node has room"
    )
