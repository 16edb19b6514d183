"""Histories made by hand and by chance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any, Final

from attrs import evolve, field, mutable

from txqueue_torture.history import EndOfRun, Enqueue, Fault, FinalJob, History, JobRun

EPOCH: Final = 1_000_000.0
"""The database's clock at 0 of the monotonic one."""


def enqueue(number: int = 1, **told: Any) -> Enqueue:
    """An acknowledged enqueue."""
    return Enqueue(
        **{
            "intent": f"c1-{number}",
            "kind": "noop",
            "outcome": "acknowledged",
            "job_id": number,
            **told,
        }
    )


def run(number: int = 1, began: float = 1.0, **told: Any) -> JobRun:
    """A run that takes a second and returns."""
    given = {"intent": f"c1-{number}", "job_id": number, "assignment": 10 * number, **told}
    lasting = {"began": began, "began_at": EPOCH + began, "ended": began + 1}
    where = {"attempt": 1, "incarnation": 1, "node": "n1", "pid": 100, "how": "returned"}
    made = JobRun(**{**where, **lasting, **given})
    return made if made.ended is None else evolve(made, ended_at=EPOCH + made.ended)


def done(number: int = 1, finished: float = 2.1, **told: Any) -> FinalJob:
    """A row of a job that is done."""
    facts = {"intent": f"c1-{number}", "assignment": 10 * number, "incarnation": 1, "attempt": 1}
    return FinalJob(
        **{"job_id": number, "state": "done", "finished_at": EPOCH + finished, **facts, **told}
    )


def fault(began: float = 1.5, ended: float = 1.6, **told: Any) -> Fault:
    """A kill of a worker of the first node."""
    given = {"kind": "kill worker", "nodes": ("n1",), "pids": frozenset({100}), "evidence": "dead"}
    return Fault(**{"began": began, "ended": ended, **given, **told})


def history(
    enqueues: list[Enqueue] | None = None,
    runs: list[JobRun] | None = None,
    jobs: list[FinalJob] | None = None,
    faults: list[Fault] | None = None,
    **told: Any,
) -> History:
    """A history; without anything, that of one job that was done."""
    told.setdefault("drain", EndOfRun(healed=10.0, ended=11.0, left=0))
    return History(
        enqueues={each.intent: each for each in ([enqueue()] if enqueues is None else enqueues)},
        runs=tuple(sorted([run()] if runs is None else runs, key=lambda each: each.began)),
        jobs={each.job_id: each for each in ([done()] if jobs is None else jobs)},
        faults=tuple(faults or ()),
        lease=3.0,
        **told,
    )


@mutable
class Simulation:
    """A queue that keeps all promises, with faults, as fast as numbers are drawn."""

    chance: Random
    enqueues: list[Enqueue] = field(factory=list)
    runs: list[JobRun] = field(factory=list)
    jobs: list[FinalJob] = field(factory=list)
    faults: list[Fault] = field(factory=list)
    effects: dict[int, int] = field(factory=dict)
    now: float = 1.0
    tokens: Iterator[int] = field(factory=lambda: count(10, 10))
    pids: Iterator[int] = field(factory=lambda: count(100))

    def history(self, jobs: int) -> History:
        """Let some jobs go their ways, one after the other."""
        for number in range(1, jobs + 1):
            self._job(number)
        drain = EndOfRun(healed=self.now, ended=self.now + 1, left=0)
        return history(
            self.enqueues,
            self.runs,
            self.jobs,
            self.faults,
            effects=self.effects,
            drain=drain,
        )

    def _job(self, number: int) -> None:
        outcome = self.chance.choice(["acknowledged"] * 4 + ["unknown", "refused", "rolled back"])
        kind = self.chance.choice(["noop", "effect", "grouped", "delayed", "expiring"])
        asked = enqueue(
            number,
            kind=kind,
            outcome=outcome,
            job_id=number if outcome == "acknowledged" else None,
            group="g" if kind == "grouped" else None,
            not_before=EPOCH + self.now if kind == "delayed" else None,
            not_after=EPOCH + self.now + 100 if kind == "expiring" else None,
            expires=kind == "expiring",
            mono=self.now,
        )
        self.enqueues.append(asked)
        if outcome == "acknowledged" or (outcome == "unknown" and self.chance.random() < 0.5):
            self._life(number, asked)

    def _life(self, number: int, asked: Enqueue) -> None:
        """Run until a run is done; those before failed, died, or lost their acknowledgement."""
        for attempt in range(1, 5):
            way = "done" if attempt == 4 else self.chance.choice(["done", "raised", "died", "lost"])
            self._run(number, asked, attempt, way)
            if way == "done":
                return

    def _run(self, number: int, asked: Enqueue, attempt: int, way: str) -> None:
        token, pid = next(self.tokens), next(self.pids)
        began, ended = self.now + 0.1, self.now + 0.3
        is_effect = asked.kind == "effect"
        how = {"done": "committed" if is_effect else "returned", "raised": "raised", "died": None}
        noted = how.get(way, "token lost" if is_effect else "returned")
        one = run(
            number,
            began,
            assignment=token,
            pid=pid,
            attempt=attempt,
            group=asked.group,
            how=noted,
            ended=None if noted is None else ended,
        )
        self.runs.append(one)
        if way in ("died", "lost"):
            self.faults.append(
                fault(ended, ended + 0.1, pids=frozenset({pid}), assigned={(number, token)})
            )
        if way == "done":
            self.effects |= {number: 1} if is_effect else {}
            self.jobs.append(done(number, ended + 0.05, assignment=token, attempt=attempt))
        self.now = ended + 0.2
