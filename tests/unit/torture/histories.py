"""Histories made by hand and by chance: right ones, and the ways to break one promise of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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


Corruption = Callable[[History, int], History]
"""Breaks a promise about a job that is done."""


def _without_job(right: History, job_id: int) -> History:
    return evolve(right, jobs={k: v for k, v in right.jobs.items() if k != job_id}, effects={})


def _rolled_back(right: History, job_id: int) -> History:
    intent = right.jobs[job_id].intent or ""
    told = evolve(right.enqueues[intent], outcome="rolled back", job_id=None)
    return evolve(right, enqueues={**right.enqueues, intent: told})


def _asked_for(**told: Any) -> Corruption:
    def corrupt(right: History, job_id: int) -> History:
        intent = right.jobs[job_id].intent or ""
        asked = evolve(right.enqueues[intent], **told)
        return evolve(right, enqueues={**right.enqueues, intent: asked})

    return corrupt


def _with_run(**told: Any) -> Corruption:
    """Add a run like the last one of the job."""

    def corrupt(right: History, job_id: int) -> History:
        last = right.runs_by_job()[job_id][-1]
        offset = told.get("later", 0.0)
        other = {name: value for name, value in told.items() if name not in ("later", "token")}
        began = last.began + offset
        copy = evolve(
            last,
            assignment=last.assignment + told.get("token", 0),
            began=began,
            began_at=EPOCH + began,
            ended=None if last.ended is None else last.ended + offset,
            **other,
        )
        return evolve(right, runs=tuple(sorted([*right.runs, copy], key=lambda each: each.began)))

    return corrupt


def _of_one_group(right: History, job_id: int) -> History:
    """Have a job of a group begin in the middle of the last run."""
    last = right.runs_by_job()[job_id][-1]
    grouped = [evolve(each, group="g") if each is last else each for each in right.runs]
    beside = run(
        9000,
        last.began + 0.05,
        assignment=last.assignment + 10_000,
        group="g",
        pid=9000,
        ended=last.began + 0.1,
    )
    runs = tuple(sorted([*grouped, beside], key=lambda each: each.began))
    asked = {**right.enqueues, "c1-9000": enqueue(9000)}
    return evolve(right, runs=runs, enqueues=asked, jobs={**right.jobs, 9000: done(9000)})


def _effects(number: int) -> Corruption:
    def corrupt(right: History, job_id: int) -> History:
        return evolve(right, effects={**right.effects, job_id: number})

    return corrupt


def _left(right: History, job_id: int) -> History:
    job = evolve(right.jobs[job_id], state="ready", finished_at=None)
    drain = EndOfRun(healed=1.0, ended=61.0, left=1)
    return evolve(right, jobs={**right.jobs, job_id: job}, drain=drain)


def _no_evidence(right: History, job_id: int) -> History:
    return evolve(right, faults=(*right.faults, fault(evidence="")))


CORRUPTIONS: Final[Mapping[str, tuple[str, Corruption]]] = {
    "an acknowledged job is gone": ("I1", _without_job),
    "a rolled back job runs": ("I2", _rolled_back),
    "a job starts early": ("I3", _asked_for(not_before=EPOCH + 1e6)),
    "a job starts expired": ("I4", _asked_for(not_after=EPOCH, expires=True)),
    "two of a group overlap": ("I5", _of_one_group),
    "a stale token completes": ("I5", _with_run(later=-0.01, token=10_000, how="raised")),
    "a job starts after its completion": ("I6", _with_run(later=1000.0, token=10_000)),
    "a job runs twice without a fault": ("I7", _with_run(later=-0.01, token=-1, pid=9999)),
    "two own one token": ("I8", _with_run(later=0.01, pid=9999, node="n2")),
    "an effect is there twice": ("I9", _effects(2)),
    "the backlog does not drain": ("I10", _left),
    "a fault did not happen": ("fault", _no_evidence),
}
"""What is broken: the promise, and how."""
