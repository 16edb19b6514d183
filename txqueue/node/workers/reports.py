"""What a node reports of its worker processes, to operators and with each heartbeat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from txqueue.node.workers.process import WorkerProcess

__all__ = ["MOST_NAMED", "blocking_report", "described"]

MOST_NAMED: Final = 10
"""How many jobs that have left threads behind a heartbeat names."""

MOST_SILENT: Final = 1_000
"""How many jobs of each kind in workers that do not answer a heartbeat names.

Jobs that wait for one that is not named are said to wait for its end.
"""


def blocking_report(workers: Iterable[WorkerProcess]) -> dict[str, Any]:
    """Return, as plain data, what runs in workers that do not answer.

    ``blocking`` has jobs that block one, ``maybe_blocking`` those of which some do, and
    ``beside`` the job that blocks the worker of each innocent one. Only the first ones.
    """
    late = [worker for worker in workers if worker.is_late]
    culprits = {next(iter(worker.blocking)): worker for worker in late if len(worker.blocking) == 1}
    unknown = {job_id for worker in late if len(worker.blocking) > 1 for job_id in worker.blocking}
    beside = {
        job_id: culprit
        for culprit, worker in culprits.items()
        for job_id in sorted(worker.in_flight - {culprit})
    }
    return {
        "blocking": sorted(culprits)[:MOST_SILENT],
        "maybe_blocking": sorted(unknown)[:MOST_SILENT],
        "beside": dict(list(beside.items())[:MOST_SILENT]),
    }


def described(workers: Iterable[WorkerProcess]) -> list[dict[str, int | bool]]:
    """Return each worker's process id, whether it is ready, blocked, stuck, crowded or for
    suspects, the jobs and weight it holds, and how much of that threads of ended jobs keep.
    """
    return [
        {
            "pid": worker.pid,
            "is_ready": worker.is_ready,
            "is_late": worker.is_late,
            "is_stuck": worker.is_stuck,
            "is_crowded": worker.is_crowded,
            "is_apart": worker.is_apart,
            "jobs": sum(worker.held.values()),
            "weight": worker.weight,
            "left": worker.left,
        }
        for worker in workers
    ]
