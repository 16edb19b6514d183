"""Jobs that wait for each other, none of which can go on by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from txqueue.policy.blockers.reason import Blocker, Facts, Gravity

__all__ = ["in_cycle"]


def in_cycle(facts: Facts, others: Mapping[str, Any]) -> Iterator[Blocker]:
    """Yield that a job waits for its own end, through others that wait for it.

    Args:
        facts: The facts about the job.
        others: The facts about the jobs that it waits for, and those that they do, by number.
    """
    its = facts["job"]["job_id"]
    known = {int(job_id): other for job_id, other in others.items()}
    if path := _path({**known, its: facts}, its):
        links = ", which waits for ".join(f"job {job_id}" for job_id in path)
        yield Blocker(
            "cycle",
            f"it waits for {links}, and so for its own end: none of them goes on",
            f"cancel one of them: txqueue cancel {path[0]}",
            Gravity.ACT,
        )


def _path(known: Mapping[int, Facts], start: int) -> list[int]:
    """Return the jobs on the shortest way from a job to itself; none if there is no such way."""
    before: dict[int, int] = {}
    seen = [start]
    for job_id in seen:
        for needed in _needed(known.get(job_id)):
            if needed == start:
                return [*_way_to(job_id, before), start]
            if needed not in before:
                before[needed] = job_id
                seen.append(needed)
    return []


def _way_to(job_id: int, before: Mapping[int, int]) -> list[int]:
    way: list[int] = []
    while job_id in before:
        way.insert(0, job_id)
        job_id = before[job_id]
    return way


def _needed(facts: Facts | None) -> Iterator[int]:
    """Yield the jobs without whose end a waiting job does not go on."""
    if facts is None or facts["job"]["state"] != "waiting":
        return
    if not any(wait["until"] for wait in facts.get("waits") or ()):
        yield from (parent["job_id"] for parent in facts.get("parents") or ())
    if facts.get("precedes") is not None:
        yield facts["precedes"]
    group = facts.get("group") or {}
    if facts["job"]["waiting_for"] == "group" and group.get("limit") == 1:
        yield from (holder["job_id"] for holder in group.get("holders", ()))
