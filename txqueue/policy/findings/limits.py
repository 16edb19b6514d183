"""Pauses and limits of operators, groups, and nodes that could not read a job, as far as they keep
it from running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from txqueue.model.humanize import age, counted, counted_as, first_of, joined, resume_command
from txqueue.policy.findings import capacity
from txqueue.policy.findings.reason import (
    DAMAGE_REMEDY,
    Blocker,
    Facts,
    Gravity,
    awaited,
    control,
    raised,
    seconds_between,
    shown_moment,
    until,
)

_IN_ITS_TURN = "nothing: it starts in its turn"


def locked(facts: Facts) -> Iterator[Blocker]:
    """Yield the sessions whose locks keep the job, or all jobs, from being claimed and ended."""
    for key, what in (
        ("locked", "the job's row"),
        ("claims_locked", "what claims and completions lock"),
    ):
        if session := facts.get(key):
            name = f" ({session['name']})" if session["name"] else ""
            since = f" for {age(session['seconds'])}" if session["seconds"] is not None else ""
            detail = f"an open transaction of session {session['pid']}{name} has locked {what}"
            remedy = f"end it: commit, or select pg_terminate_backend({session['pid']})"
            yield Blocker("locked", detail + since, remedy, Gravity.ACT)


def held_back(facts: Facts, kind: str) -> Iterator[Blocker]:
    """Yield the pause, the hold and the limits of the job's queue, tenant or group."""
    limits, key = _limits(facts, kind), facts["job"][kind]
    if limits.get("is_paused"):
        what = f"the {kind} {key} is paused"
        yield Blocker("pause", what, resume_command(kind, key), Gravity.ACT, "paused")
    elif is_held(facts, kind):
        yield _throttled(facts, kind)
    if kind != "group":
        yield from _at_limit(facts, kind)
    ahead = limits.get("ahead") or 0
    if limits.get("opens_in") is not None:
        detail = f"the {kind} {key} may start only {_rate(limits)}"
        left = f"the next in {limits['opens_in']:.1f} s"
        yield Blocker("rate", f"{detail}; {left}", _faster(limits, kind, key))
    elif limits.get("tokens") is not None and ahead >= limits["tokens"]:
        detail = f"the {kind} {key} may start only {_rate(limits)}; {first_of(ahead)}"
        yield Blocker("rate", detail, f"{_IN_ITS_TURN}; {raised(kind, key, '--rate')}")


def _at_limit(facts: Facts, kind: str) -> Iterator[Blocker]:
    limits, key = control(facts, kind), facts["job"][kind]
    most, ahead = limits.get("concurrency"), limits.get("ahead") or 0
    if most is None:
        return
    more = raised(kind, key, "--concurrency")
    if limits["running"] >= most:
        detail = f"the {kind} {key} runs as many jobs as its limit allows ({counted(most, 'job')})"
        if len(silent := limits.get("silent") or ()) >= most:
            yield _held_by_silent(detail, silent, more)
            return
        yield Blocker("limit", detail, f"nothing: it starts when one of them ends; {more}")
    elif limits["running"] + ahead >= most:
        detail = f"the {kind} {key} may run {counted(most, 'job')} at a time, and {first_of(ahead)}"
        yield Blocker("limit", detail, f"{_IN_ITS_TURN}; {more}")


def _held_by_silent(detail: str, silent: Sequence[int], more: str) -> Blocker:
    """Return that those which run may never end, as their workers do not answer."""
    return Blocker(
        "limit",
        f"{detail}, in workers that do not answer: {joined([f'job {each}' for each in silent])}",
        f"see: txqueue explain {silent[0]}; {more}",
        Gravity.FAULT,
    )


def behind_group(facts: Facts) -> Iterator[Blocker]:
    """Yield what runs of the job's group, or the job of the group that goes first."""
    job, group = facts["job"], facts["group"]
    if group is None:
        return
    before = counted_as(group["before"], "job", "of the group goes first", "of the group go first")
    queued = f", and {before}"
    if group["running"] >= group["limit"]:
        holders = " and ".join(_holder_text(facts, holder) for holder in group["holders"])
        holder = group["holders"][0]["job_id"]
        yield Blocker(
            "group",
            f"its group {job['group']} is busy with {holders}{queued if group['before'] else ''}",
            f"nothing: it becomes ready when they end; see: txqueue explain {holder}",
        )
    elif group["first"]:
        first = f"job {group['first'][0]} of its group {job['group']} goes first"
        left = group["before"] - 1
        more = f", as {'does' if left == 1 else 'do'} {left:,} more" if left else ""
        remedy = f"nothing: it starts after that; see: txqueue explain {group['first'][0]}"
        yield Blocker("group", first + more, remedy)


def for_rate(facts: Facts) -> Blocker:
    """Return why a job waits for the next token of its group's rate."""
    job = facts["job"]
    left = until(facts, job["not_before"])
    detail = f"its group {job['group']} may start only {_rate(_limits(facts, 'group'))}"
    remedy = _faster(_limits(facts, "group"), "group", job["group"])
    return Blocker("rate", f"{detail}; this job may start {left}", remedy)


def _holder_text(facts: Facts, holder: Mapping[str, Any]) -> str:
    if (waits := holder.get("waits")) is not None:
        what = f"waits for {awaited(facts, waits[0])}" if waits else "goes on in a moment"
        return f"job {holder['job_id']}, which {what}"
    since = age(seconds_between(facts["now"], holder["since"]))
    return f"job {holder['job_id']} on node {holder['node'] or 'unknown'} since {since}"


def _limits(facts: Facts, kind: str) -> Mapping[str, Any]:
    """Return the limits of operators, and the rate of the job's type where they have set none."""
    limits, group = control(facts, kind), facts["group"] or {}
    declared = group.get("rate") if kind == "group" and not limits.get("rate") else None
    return {**limits, **(declared or {})}


def is_held(facts: Facts, kind: str) -> bool:
    """Tell whether no job of the job's queue, tenant or group starts now, as one was throttled."""
    held_until = control(facts, kind).get("held_until")
    return held_until is not None and seconds_between(held_until, facts["now"]) > 0


def throttled(facts: Facts) -> Iterator[Blocker]:
    """Yield that the job has to wait because its own handler was throttled."""
    for kind in ("group", "tenant", "queue"):
        if control(facts, kind).get("held_by") == facts["job"]["job_id"] and is_held(facts, kind):
            found, more = _throttled(facts, kind), "and for this job, which raised it:"
            again = f"txqueue retry {facts['job']['job_id']}"
            yield evolve(found, remedy=f"{found.remedy}, {more} {again}")


def _throttled(facts: Facts, kind: str) -> Blocker:
    limits, key = control(facts, kind), facts["job"][kind]
    moment = f"{shown_moment(limits['held_until'])} ({until(facts, limits['held_until'])})"
    detail = f"the {kind} {key} is throttled until {moment} by job {limits['held_by']}"
    remedy = f"nothing: it goes on then; to end that now: {resume_command(kind, key)}"
    return Blocker("throttled", detail, remedy)


def _rate(limits: Mapping[str, Any]) -> str:
    rate = limits.get("rate") or 0
    text = f"{rate:g} {'job' if rate == 1 else 'jobs'} a second"
    owed = _owed(limits)
    return f"{text}, and former ones cost {owed:,} more than that" if owed > 0 else text


def _owed(limits: Mapping[str, Any]) -> int:
    # The next job starts with one token left.
    return round((limits.get("opens_in") or 0) * (limits.get("rate") or 0)) - 1


def _faster(limits: Mapping[str, Any], kind: str, key: str) -> str:
    """Return how to raise a rate; an operator's takes the place of the type's and of its debt."""
    more = raised(kind, key, "--rate")
    return f"{more}; what former ones cost is then forgotten" if _owed(limits) > 0 else more


def damaged(facts: Facts) -> Blocker:
    """Return what of a job's row cannot be read, which makes the claim of the job fail it."""
    return Blocker(
        "damaged", f"{facts['damage']}; a node that takes it fails it", DAMAGE_REMEDY, Gravity.FAULT
    )


def fixed(blocker: Blocker, damage: str) -> Blocker:
    """Return that acts of operators leave an assigned or ended job as it is."""
    detail = f"{blocker.detail}; its row is damaged: {damage}"
    return evolve(blocker, reason="damaged", detail=detail, remedy=DAMAGE_REMEDY)


def in_clear(facts: Facts) -> Blocker:
    """Return that no node of an encrypted type reads a payload that is not encrypted."""
    job = facts["job"]
    return Blocker(
        "unreadable",
        f"its payload is in clear, but {job['work_type']} is encrypted: it was enqueued before a"
        " node had published that",
        f"txqueue cancel {job['job_id']}, and enqueue it again with a Python client that has"
        " TXQUEUE_PAYLOAD_KEY",
        Gravity.FAULT,
        "clear_payloads",
    )


def unreadable(facts: Facts) -> Blocker:
    """Return that no live node has a job's type, or which versions could not read it, and when it
    fails.
    """
    job, unread = facts["job"], facts["unread"]
    left = f"; it fails {until(facts, unread['until'])}" if unread else ""
    if (absent := next(capacity.without_node(facts), None)) is not None:
        return evolve(absent, detail=f"{absent.detail}{left}")
    if untried := [node for node in capacity.capable(facts) if node.get("has_tried") is False]:
        return _for_other_workers(facts, untried)
    tried = [node for node in capacity.capable(facts) if node["has_tried"]]
    names = joined([_with_application(node) for node in tried])
    those = f" (tried by {names})" if names else ""
    return Blocker(
        "unreadable",
        f"no live node can read it{those}: {job['error']}{left}",
        f"start nodes whose {job['work_type']} has these fields;"
        f" if the payload is wrong: txqueue cancel {job['job_id']}",
        Gravity.FAULT,
        "unreadable_jobs",
    )


def _for_other_workers(facts: Facts, untried: Sequence[Mapping[str, Any]]) -> Blocker:
    """A worker that cannot read the job may take it before one that can, in the same node."""
    names = joined([_with_application(node) for node in untried])
    tries = f" it is tried again {until(facts, facts['job']['not_before'])}"
    return Blocker(
        "unreadable",
        f"a worker could not read it: {facts['job']['error']}; workers of another version may"
        f" ({names});{tries}",
        "nothing: such a worker runs it; to make all workers of a node alike: restart the node",
    )


def _with_application(node: Mapping[str, Any]) -> str:
    versions = ", ".join(node["applications"] or ())
    return f"{node['name']}, application {versions}" if versions else str(node["name"])
