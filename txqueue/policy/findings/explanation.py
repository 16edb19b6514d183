"""Why a job does not run: the gravest of the reasons that its facts show; and why an act has left a
job unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC
from itertools import chain

from attrs import evolve, frozen

from txqueue.model.humanize import counted, queues_option
from txqueue.model.operator_acts import ACTS
from txqueue.policy.findings import capacity, limits, reason
from txqueue.policy.findings.full_nodes import assigned, without_room
from txqueue.policy.findings.obstacles import unknown
from txqueue.policy.findings.reason import Blocker, Facts, Gravity


@frozen
class Explanation:
    """Why a job is in its state.

    Attributes:
        job_id: The job's number.
        state: The job's state.
        reason: One word for programs: ``time, backoff, workset, rate, group, parents, unique,
            signal, sleep, call, unknown_type, held, no_key, unreadable, damaged, pause, throttled,
            no_capable_node, no_worker, suspect, locked, limit, reserve, no_free_capacity, next,
            assigned, running, rescue, done, failed, quarantine, cancelled``.
        detail: The reason in one sentence for people.
        remedy: What would make the job run. If it waits for another job, the command that explains
            that one.
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
    job, blocker = facts["job"], judged(facts)
    return Explanation(job["job_id"], job["state"], blocker.reason, blocker.detail, blocker.remedy)


def judged(facts: Facts) -> Blocker:
    """Return the gravest reason why a job does not run, with its gravity; see `explain`."""
    state = facts["job"]["state"]
    if facts.get("damage") and state in ("waiting", "ready"):
        return limits.damaged(facts)
    if facts.get("is_clear") and state in ("waiting", "ready"):
        return limits.in_clear(facts)
    blocker = _BY_STATE[state](facts)
    if facts.get("damage") and state != "done":
        return limits.fixed(blocker, facts["damage"])
    if blocker.reason in _SETTLED or blocker.gravity is not Gravity.COURSE:
        return blocker
    stops = [*reason.in_cycle(facts), *_stops(facts)]
    later = max(stops, key=lambda each: each.gravity, default=blocker)
    if later.gravity is Gravity.COURSE:
        return blocker
    detail = f"{blocker.detail}; {later.detail}"
    return evolve(later, reason=blocker.reason, detail=detail)


def explain_archived(job: Facts) -> Explanation:
    """Explain the state of an archived job from its columns, whose timestamps are datetimes."""
    when = job["finished_at"].astimezone(UTC)
    detail = f"it was {job['state']} on {when:%Y-%m-%d %H:%M} UTC, and is archived"
    remedy = f"to run it once more: txqueue repeat {job['job_id']}"
    return Explanation(job["job_id"], job["state"], job["state"], detail, remedy)


def _ready(facts: Facts) -> Blocker:
    return next(_hindrances(facts), _NOTHING)


# Nothing else can stop these jobs: they have a node, or have ended, or all has been looked at.
_SETTLED = ("next", "assigned", "running", "done", "failed", "cancelled", "quarantine")
# What stops all jobs of a group.
_HOLDS = ("pause", "throttled")
_NOTHING = Blocker("next", "nothing delays it", "nothing: a node claims it in a moment")


def _stops(facts: Facts) -> Iterator[Blocker]:
    """Yield what would stop a job once it no longer waits for others, or its node is gone."""
    blockers = [*capacity.while_held(facts)] or [*capacity.without_node(facts)]
    blockers += _faults(capacity.without_its_key(facts))
    if reason.until(facts, facts["job"]["not_before"]) == "never":
        blockers.append(_early(facts))
    for kind in ("queue", "tenant", "group"):
        blockers += limits.held_back(facts, kind)
    blockers += capacity.without_worker(facts) if capacity.capable(facts) else ()
    for blocker in blockers:
        yield evolve(blocker, detail=f"after that it does not run: {blocker.detail}")


def _hindrances(facts: Facts) -> Iterator[Blocker]:
    """Yield the obstacles of a ready job, the gravest first."""
    yield from capacity.while_held(facts)
    yield from capacity.without_node(facts)
    if all(node.get("has_tried") for node in capacity.capable(facts)):
        yield limits.unreadable(facts)
    yield from _faults(capacity.without_its_key(facts))
    yield from limits.locked(facts)
    for kind in ("queue", "tenant", "group"):
        yield from limits.held_back(facts, kind)
    yield from capacity.without_worker(facts)
    yield from limits.behind_group(facts)
    yield from without_room(facts)


def _faults(blockers: Iterable[Blocker]) -> Iterator[Blocker]:
    return (blocker for blocker in blockers if blocker.gravity is Gravity.FAULT)


def _waiting(facts: Facts) -> Blocker:
    if facts.get("waits") and not (facts["job"]["waiting_for"] == "time" and reason.is_due(facts)):
        return reason.at_wait(facts)
    return _WAITING_FOR[facts["job"]["waiting_for"]](facts)


def _for_type(facts: Facts) -> Blocker:
    if facts["is_published"]:
        return _ready(facts)
    what, remedy = unknown(facts["job"]["work_type"], None, is_published=False)
    if not any(node["serves"] for node in facts["nodes"]):
        queue = facts["job"]["queue"]
        what = f"{what}, and no live node serves the queue {queue}"
        remedy = f"{remedy}, with {queues_option(queue)}"
    found = Blocker("unknown_type", what, remedy, Gravity.FAULT, "unknown_type")
    return next(capacity.without_key(facts), found)


def _for_time(facts: Facts) -> Blocker:
    if reason.is_due(facts):
        return _ready(facts)
    job = facts["job"]
    if facts.get("unread") and not job["attempt"]:
        return limits.unreadable(facts)
    if (
        hold := next(chain(capacity.without_its_key(facts), limits.throttled(facts)), None)
    ) is not None:
        return hold
    left = reason.until(facts, job["not_before"])
    now = f"to run it now: txqueue retry {job['job_id']}"
    if (workset := facts.get("workset")) and not job["error"]:
        items = f"the workset {workset['name']} has {counted(workset['remaining'], 'item')} left"
        detail = f"{items}, held by its other jobs or waiting for a retry; it looks again {left}"
        remedy = "nothing: it continues by itself; see: txqueue worksets"
        return Blocker("workset", detail, remedy)
    if not job["attempt"] or left == "never":
        return _early(facts)
    why = f": {job['error']}" if job["error"] else ""
    detail = f"{counted(job['attempt'], 'attempt')} failed{why}; the next is due {left}"
    return Blocker("backoff", detail, f"nothing; {now}")


def _early(facts: Facts) -> Blocker:
    job, left = facts["job"], reason.until(facts, facts["job"]["not_before"])
    return Blocker(
        "time",
        f"it is not to start before {reason.shown_moment(job['not_before'])}, {left}",
        f"to run it now: txqueue retry {job['job_id']}",
        Gravity.ACT if left == "never" else Gravity.COURSE,
    )


def _for_rate(facts: Facts) -> Blocker:
    pause = next(limits.held_back(facts, "group"), None)
    if pause is not None and pause.reason in _HOLDS:
        return pause
    if reason.is_due(facts):
        return _ready(facts)
    # The token for which it waits is for the first job of the group.
    return next(limits.behind_group(facts)) if facts["group"]["first"] else limits.for_rate(facts)


def _for_parents(facts: Facts) -> Blocker:
    parents, left = facts["parents"], facts["parents_left"]
    if not parents:
        return _soon(facts, "parents", "the jobs it waited for have just ended")
    names = ", ".join(f"{parent['job_id']} ({parent['state']})" for parent in parents)
    more = f" and {left - len(parents)} more" if left > len(parents) else ""
    ended = "have ended" if parents[0]["any_end"] else "are done"
    detail = f"it waits until these {ended}: {names}{more}"
    see = f"see: txqueue explain {parents[0]['job_id']}"
    return Blocker("parents", detail, f"nothing: it becomes ready then; {see}")


def _for_unique(facts: Facts) -> Blocker:
    holder = facts["precedes"]
    if holder is None:
        return _soon(facts, "unique", "the job that held its unique key has just ended")
    detail = f"it waits for job {holder}, which holds the same unique key"
    see = f"see: txqueue explain {holder}"
    return Blocker("unique", detail, f"nothing: it becomes ready when that job ends; {see}")


def _for_group(facts: Facts) -> Blocker:
    hold = next(limits.held_back(facts, "group"), None)
    if hold is not None and hold.reason in _HOLDS:
        return hold
    if (ahead := next(limits.behind_group(facts), hold)) is not None:
        return ahead
    return _soon(facts, "group", f"its group {facts['job']['group']} is free")


def _soon(facts: Facts, word: str, detail: str) -> Blocker:
    """Return what the next heartbeat of a node makes ready, or else that no node runs."""
    if not facts["nodes"]:
        return next(capacity.without_node(facts))
    return Blocker(word, detail, "nothing: it becomes ready in a moment")


_BY_STATE: Mapping[str, Callable[[Facts], Blocker]] = {
    "waiting": _waiting,
    "ready": _ready,
    "assigned": assigned,
    "done": reason.done,
    "failed": reason.failed,
    "cancelled": reason.cancelled,
}
_WAITING_FOR: Mapping[str, Callable[[Facts], Blocker]] = {
    "type": _for_type,
    "version": limits.unreadable,
    "time": _for_time,
    "rate": _for_rate,
    "group": _for_group,
    "parents": _for_parents,
    "signal": reason.at_wait,
    "unique": _for_unique,
}


EXPLAINED = 100
"""How many refused jobs an act explains; each takes a query."""

_LONGEST = 300


def explain_refusal(act: str, why: Explanation) -> Explanation:
    """Return why an act has left a job unchanged.

    Args:
        act: The name of an act on jobs.
        why: The explanation of the job.
    """
    if why.reason == "damaged":
        return why
    left = next(each for each in ACTS[act].left if not each.states or why.state in each.states)
    remedy = left.remedy.format(why.remedy, job_id=why.job_id)
    return evolve(why, detail=left.detail.format(why.detail), remedy=remedy)


def refusal_text(why: Explanation) -> str:
    """Return a refusal as a sentence for people."""
    detail = (why.detail.splitlines() or [""])[0]
    shortened = detail if len(detail) <= _LONGEST else f"{detail[:_LONGEST]}..."
    remedy = f"; {why.remedy}" if why.remedy else ""
    return f"Job {why.job_id}: {shortened}{remedy}."
