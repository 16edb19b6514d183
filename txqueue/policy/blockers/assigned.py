"""Why a job that is assigned to a node does not run, or that it does."""

from __future__ import annotations

from attrs import evolve

from txqueue.model.humanize import age, counted
from txqueue.policy.blockers.capacity import holders_of, is_suspect
from txqueue.policy.blockers.full_nodes import no_process_for_suspects
from txqueue.policy.blockers.limits import locked
from txqueue.policy.blockers.reason import Blocker, Facts, Gravity, ago, seconds_between
from txqueue.policy.facts.obstacles import SEE_LOG, worker_obstacle

__all__ = ["assigned"]


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
            remedy = "start a node, which rescues it: twistd -n txqueue --app MODULE"
            return Blocker("rescue", f"{detail}, and no other node runs", remedy, Gravity.FAULT)
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
