"""Computes numbers about a scenario's run from its record: enqueues, duplicates, restart times."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from txqueue_torture.history import History, JobRun

__all__ = ["DECLARED", "duplicates", "figures_of", "restarts"]

DECLARED = frozenset({"raised", "snoozed", "cancelled", "token lost", "suspended"})
"""How a run may end so that another run of the job is expected, and no duplicate."""


def figures_of(history: History) -> dict[str, Any]:
    """Return the numbers that `ScenarioOutcome` shows for every scenario."""
    slowest = max(restarts(history), default=None)
    return {
        "enqueued": sum(
            enqueued.outcome == "acknowledged" for enqueued in history.enqueues.values()
        ),
        "done": sum(job.state == "done" for job in history.jobs.values()),
        "duplicates": len(duplicates(history)),
        "restart_seconds": None if slowest is None else round(slowest, 3),
    }


def duplicates(history: History) -> list[tuple[JobRun, JobRun]]:
    """Return the pairs of successive runs of a job whose first run does not explain the second.

    A run explains the next one if it ended before that in one of the ways in `DECLARED`.
    """
    return [
        (before, again)
        for runs in history.runs_by_job().values()
        for before, again in _in_token_order(runs)
        if not _declared(before, again)
    ]


def _declared(before: JobRun, again: JobRun) -> bool:
    """Whether a run had ended in one of the ways in `DECLARED` before the next one started."""
    return before.how in DECLARED and before.ended is not None and before.ended <= again.began


def restarts(history: History) -> Iterator[float]:
    """Yield the seconds from each kill to the next start of each interrupted job."""
    by_job = history.runs_by_job()
    for fault in history.faults:
        if fault.is_killing:
            for run in history.runs:
                if run.pid in fault.pids and run.ended is None:
                    yield from _next_start(by_job[run.job_id], fault.began)


def _next_start(runs: list[JobRun], since: float) -> list[float]:
    return sorted(run.began - since for run in runs if run.began > since)[:1]


def _in_token_order(runs: list[JobRun]) -> Iterator[tuple[JobRun, JobRun]]:
    ordered = sorted(runs, key=lambda run: (run.assignment, run.began))
    return pairwise(ordered)
