"""States of a queue: how each job is explained, and what then happened to the job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from txqueue.policy.findings.explanation import judged
from txqueue.policy.findings.reason import Blocker, Gravity

__all__ = ["Explained", "State", "lies"]


@frozen
class Explained:
    """A job's facts, and what happened to the job without any further act."""

    job_id: int
    facts: str
    is_claimed: bool
    has_ended: bool

    def blocker(self) -> Blocker:
        """The explanation of the facts."""
        return judged(json.loads(self.facts))

    def is_exempt(self) -> bool:
        """Whether it may wait for other jobs without end: each is explained by itself."""
        facts = json.loads(self.facts)
        waits = facts["job"]["group"] or facts["precedes"] or facts["parents"]
        return bool(waits) and self.blocker().gravity is Gravity.COURSE

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
    if blocker.gravity is Gravity.COURSE and not job.has_ended and not job.is_exempt():
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
