"""Decides from recorded starts and ends what ran at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

__all__ = ["Run", "most_at_once", "runs_of"]


@frozen
class Run:
    """One run of a job, in seconds of the database's clock."""

    job_id: int
    begin: float
    end: float


def runs_of(notes: Iterable[Mapping[str, Any]], killed: Mapping[int, float]) -> list[Run]:
    """Put starts and ends together.

    Args:
        notes: ``job_id, attempt, what, pid, at``; ``what`` begins with start or end.
        killed: When processes were killed, by their number: a run in one ended then.
    """
    begun: dict[tuple[int, int], list[float]] = defaultdict(list)
    runs = []
    for note in sorted(notes, key=lambda note: note["at"]):
        key = (note["job_id"], note["pid"])
        if note["what"].startswith("start"):
            begun[key].append(note["at"])
        else:
            runs.append(Run(note["job_id"], begun[key].pop(), note["at"]))
    for (job_id, pid), left in begun.items():
        runs += [Run(job_id, begin, killed[pid]) for begin in left]
    return runs


def most_at_once(runs: Sequence[Run]) -> int:
    """Return how many ran at the same time at most; one that begins as another ends does not."""
    changes = sorted([(run.end, -1) for run in runs] + [(run.begin, 1) for run in runs])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most
