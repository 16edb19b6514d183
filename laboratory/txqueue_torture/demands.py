"""Conditions that scenarios wait for, and requirements beyond the invariants."""

from __future__ import annotations

from txqueue_torture.environment import Testbed
from txqueue_torture.figures import duplicates
from txqueue_torture.node import TortureNode

__all__ = [
    "ended_jobs",
    "no_duplicates",
    "nothing_spent",
    "running_on",
    "started_on",
    "works_again",
]


def no_duplicates(testbed: Testbed) -> None:
    """Expect of a finished scenario that no job ran twice, except after an end in `DECLARED`."""
    twice = sorted({again.job_id for _, again in duplicates(testbed.history())})
    testbed.expect(not twice, f"no job runs twice: {twice[:20]}")


def nothing_spent(testbed: Testbed) -> None:
    """Expect of a finished scenario that no job counted a death."""
    blamed = sorted(job.job_id for job in testbed.history().jobs.values() if job.deaths)
    testbed.expect(not blamed, f"no job is blamed for a death: {blamed[:20]}")


def ended_jobs(testbed: Testbed) -> int:
    """Return how many jobs are done."""
    table = f"{testbed.schema}.job"
    return int(testbed.database.value(f"select count(*) from {table} where state = 'done'"))


def started_on(testbed: Testbed, name: str) -> set[int]:
    """Return the jobs that have started on a node."""
    return {run.job_id for run in testbed.history().runs if run.node == name}


def running_on(testbed: Testbed, name: str) -> set[int]:
    """Return the jobs that have started on a node and have recorded no end."""
    runs = testbed.history().runs
    return {run.job_id for run in runs if run.node == name and run.ended is None}


def works_again(testbed: Testbed, node: TortureNode) -> None:
    """Wait until a node starts another job."""
    since = len(testbed.history().runs)
    testbed.wait(
        lambda: any(run.node == node.name for run in testbed.history().runs[since:]),
        "the node works again",
        every=0.3,
    )
