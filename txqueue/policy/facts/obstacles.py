"""Why a node starts no job, by what it has reported, and what an operator does about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from txqueue.model.humanize import counted, joined
from txqueue.model.sqlstates import INSUFFICIENT_PRIVILEGE, remedy_of

__all__ = [
    "GRANT",
    "SEE_LOG",
    "UNDRAIN",
    "WorkerObstacle",
    "claim_obstacle",
    "remedy_of_refusal",
    "threads_left",
    "worker_obstacle",
]

Row = Mapping[str, Any]

UNDRAIN = "start another node, or, unless it is stopping: txqueue undrain NODE"
GRANT = (
    "grant the node's role what it lacks, as txqueue_worker has it; if that role lacks it, run:"
    " txqueue migrate"
)
SEE_LOG = "see the node's log; --kill-stuck replaces workers that cannot start jobs"


@frozen
class WorkerObstacle:
    """Why no worker of a node can start a job.

    Attributes:
        what: The reason.
        is_passing: Whether it ends by itself, as workers are starting.
        remedy: What to do, unless it concerns the workers.
    """

    what: str
    is_passing: bool = False
    remedy: str = ""


def worker_obstacle(report: Row) -> WorkerObstacle | None:
    """Return why no worker of a node can start a job, by what its last heartbeat reported."""
    workers = report.get("workers")
    if workers is None:
        return None
    if not workers:
        return WorkerObstacle(_NO_WORKER, remedy=_SEE_IMPORT)
    # A node of an older version reports no more than the number of those that cannot.
    closed = report.get("closed") or {"blocked": report.get("unable") or 0}
    if sum(closed.values()) < workers:
        return None
    known, unknown = report.get("blocking"), report.get("maybe_blocking")
    culprits = [_jobs(known)] if known else []
    culprits += [f"one of {_jobs(unknown)}"] if unknown else []
    by = f" by {' and '.join(culprits)}" if culprits else ""
    texts = {**_CLOSED, "blocked": f"blocked{by}: {_BLOCKED}"}
    counts = [f"{closed[reason]} {what}" for reason, what in texts.items() if closed.get(reason)]
    is_passing = bool(closed.get("starting"))
    return WorkerObstacle(f"of {counted(workers, 'worker')} {', '.join(counts)}", is_passing)


def threads_left(report: Row) -> str | None:
    """Return what threads of ended jobs keep in the workers of a node that can start others."""
    left = report.get("left")
    if not left:
        return None
    return f"threads that go on after the ends of {_jobs(left['jobs'])} keep {left['weight']:,}"


def _jobs(ids: Sequence[int]) -> str:
    return f"{'job' if len(ids) == 1 else 'jobs'} {joined([*map(str, ids)], most=10)}"


_NO_WORKER: Final = "no worker process runs"
_SEE_IMPORT: Final = "see the node's log: the import of the application may fail"
_BLOCKED: Final = "a handler does not return, or the process is stopped"
_CLOSED: Final[Mapping[str, str]] = {
    "blocked": "blocked",
    "stuck": "stuck: handlers of ended runs fill the threads",
    "starting": "starting",
}


def claim_obstacle(report: Row) -> WorkerObstacle | None:
    """Return why a node claims no job, if the database refuses its claims."""
    if lacking := report.get("lacking_right"):
        return WorkerObstacle(f"the database refuses its statements: {lacking}", remedy=GRANT)
    if report.get("may_claim") in (True, None):
        return None
    refusal = report.get("refused") or {}
    what = f"the database refuses its claims: {refusal.get('said')}"
    return WorkerObstacle(what, remedy=remedy_of_refusal(refusal))


def remedy_of_refusal(refusal: Row) -> str:
    """Return what an operator does about a statement that the database has refused."""
    code = refusal.get("sqlstate")
    return GRANT if code == INSUFFICIENT_PRIVILEGE else remedy_of(code)
