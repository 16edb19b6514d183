"""How many jobs do not run for which reason: each class of jobs is counted by its explained one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from txqueue.model.humanize import amount, counted_as
from txqueue.policy.findings.explanation import judged
from txqueue.policy.findings.reason import Blocker, Gravity, seconds_between

Row = Mapping[str, Any]

FAR: Final = 600.0
"""Seconds before its moment until which what would stop a job is not warned of."""

_FOR_TIME = ("time", "backoff", "workset", "sleep", "signal")
# Nothing keeps these jobs from running.
_RUNNING = ("next", "running", "done", "failed", "cancelled", "quarantine")
COUNTED_BY_NAME: Final = ("no_node", "unserved_queue", "unknown_type", "paused", "held_type")
"""Warnings of these kinds count such jobs by name, or name what was paused."""


def blocked_jobs(classes: Iterable[Row], facts: Mapping[int, Row]) -> list[dict[str, Any]]:
    """Count jobs by the reason why they do not run.

    Args:
        classes: Classes of jobs: ``queue``, ``work_type``, the number of ``jobs``, and the number
            of one of them, the ``example``.
        facts: The facts of the examples, by their numbers.

    Returns:
        For each reason, queue and work type ``reason, gravity, queue, work_type, jobs``, and of
        one such job ``job_id, detail, remedy``; the gravest first, then those of the most jobs.
    """
    blocked: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in classes:
        if row["example"] not in facts:
            continue
        blocker = judged(facts[row["example"]])
        if blocker.reason in _RUNNING:
            continue
        place = {
            "reason": blocker.reason,
            "gravity": _gravity(blocker, facts[row["example"]]).name.lower(),
            "queue": row["queue"],
            "work_type": row["work_type"],
        }
        example = {"job_id": row["example"], "detail": blocker.detail, "remedy": blocker.remedy}
        entry = blocked.setdefault(
            (*place.values(), blocker.kind), {**place, "jobs": 0, **example, "kind": blocker.kind}
        )
        entry["jobs"] += row["jobs"]
    return sorted(
        blocked.values(), key=lambda row: (-Gravity[row["gravity"].upper()], -row["jobs"])
    )


def jobs_left_out(classes: Sequence[Row], most: int) -> list[str]:
    """Return sentences about jobs that `blocked_jobs` does not count, as there are too many.

    Args:
        classes: The classes as for `blocked_jobs`, with the number of ``jobs_of_state`` that were
            looked at, of ``all_jobs`` of all states, and of all ``classes``.
        most: How many jobs of a state are looked at.
    """
    full = sorted({row["state"] for row in classes if row["jobs_of_state"] >= most})
    sentences = [
        f"only {amount(most)} {state} jobs were looked at; there may be more" for state in full
    ]
    if classes and (left := classes[0]["classes"] - len(classes)) > 0:
        jobs = classes[0]["all_jobs"] - sum(row["jobs"] for row in classes)
        of = f"of {amount(left)} smaller class{'' if left == 1 else 'es'}"
        sentences.append(counted_as(jobs, "job", f"{of} does not count", f"{of} do not count"))
    return sentences


def _gravity(blocker: Blocker, facts: Row) -> Gravity:
    """Return the gravity; what stops a job now is no fault if its moment is far."""
    left = seconds_between(facts["job"]["not_before"], facts["now"])
    is_far = FAR < left < float("inf")
    return Gravity.COURSE if is_far and blocker.reason in _FOR_TIME else blocker.gravity
