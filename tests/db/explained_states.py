"""States of a queue: how each job is explained, and what then happened to the job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from txqueue.policy.blockers import Blocker, Gravity, judged

__all__ = ["Explained", "State", "lies", "overtaken"]

# A job that waits for these has no place in its group yet, and may come to it without any act.
NOT_THERE: Final = ("time", "parents", "unique")


@frozen
class Explained:
    """A job's facts, and what happened to the job without any further act.

    A job is overtaken by one of its group that ranks before it, but comes to the group only later
    and then does not run: whether it comes before this one runs, no explanation can foresee. So
    are the jobs that wait for such a job.
    """

    job_id: int
    facts: str
    is_claimed: bool
    has_ended: bool
    is_overtaken: bool = False

    def blocker(self) -> Blocker:
        """The explanation of the facts."""
        return judged(json.loads(self.facts))

    def is_exempt(self) -> bool:
        """Whether the job is not to end, and that is no lie of what is said, as it is overtaken."""
        return self.is_overtaken and self.blocker().gravity is Gravity.COURSE

    def lie(self) -> str | None:
        """What is untrue of the explanation; None if it is true."""
        blocker = self.blocker()
        untrue = _untrue(blocker, self)
        return untrue and f"job {self.job_id}: {untrue}: {blocker}"


@frozen
class State:
    """The jobs of one state, and the last acts that led to it."""

    acts: Sequence[str]
    jobs: Sequence[Explained]


def lies(states: Iterable[State]) -> Iterator[str]:
    """Yield what is untrue of the explanations of the jobs of some states."""
    for state in states:
        for job in state.jobs:
            if lie := job.lie():
                yield f"{lie}\nfacts: {job.facts}\nafter: {'; '.join(state.acts)}"


def _untrue(blocker: Blocker, job: Explained) -> str | None:
    if blocker.gravity is Gravity.COURSE and not job.has_ended and not job.is_overtaken:
        return "it never runs without an act"
    if blocker.gravity is not Gravity.COURSE and job.has_ended:
        return "it runs without any act"
    if blocker.reason == "next" and not job.is_claimed:
        return "it is not claimed at once"
    if job.is_claimed and not _may_be_claimed(blocker):
        return "it is claimed at once"
    return None


def _may_be_claimed(blocker: Blocker) -> bool:
    """Whether what is said leaves open that the next claims take the job, after others."""
    are_before = re.search("jobs? go(es)? first", blocker.detail) is not None
    is_soon = "in a moment" in blocker.remedy or are_before
    is_behind = blocker.reason == "group" and "goes first" in blocker.detail
    return blocker.reason in ("next", "assigned", "running", "rescue") or is_soon or is_behind


def overtaken(facts: Mapping[int, Any], left: set[int], there: set[int]) -> set[int]:
    """Return the jobs before which others came to their group, and those that wait for them.

    Args:
        facts: The facts of the jobs, by number, before anything happened.
        left: The jobs that have not ended after that.
        there: Those of them that are ready, or wait for their group, then.
    """
    ranks = {job_id: (its["job"]["rank"], job_id) for job_id, its in facts.items()}
    late = {
        job_id for job_id in there & set(facts) if facts[job_id]["job"]["waiting_for"] in NOT_THERE
    }
    found = {
        job_id
        for job_id in left & set(facts)
        for other in late
        if (group := facts[job_id]["job"]["group"])
        and facts[other]["job"]["group"] == group
        and ranks[other] < ranks[job_id]
    }
    while (
        more := {job_id for job_id, its in facts.items() if found.intersection(its["behind"])}
        - found
    ):
        found |= more
    return found
