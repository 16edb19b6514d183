"""Why a node starts no job, by what it has reported; and what silent nodes did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from txqueue.model.humanize import age, argument, counted, joined, queues_option
from txqueue.model.sqlstates import INSUFFICIENT_PRIVILEGE, remedy_of

Row = Mapping[str, Any]

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
    closed = _closed(report)
    if not workers and closed.get("starting"):
        return WorkerObstacle(IMPORTING, is_passing=True)
    if not workers:
        return WorkerObstacle(_NO_WORKER, remedy=_SEE_IMPORT)
    if sum(closed.values()) < workers:
        return None
    what = f"of {counted(workers, 'worker')} {closed_workers(report)}"
    return WorkerObstacle(what, is_passing=bool(closed.get("starting")))


def closed_workers(report: Row) -> str:
    """Return how many workers can start no job for which reason, with the jobs that block them."""
    known, unknown = report.get("blocking"), report.get("maybe_blocking")
    culprits = [_jobs(known)] if known else []
    culprits += [f"one of {_jobs(unknown)}"] if unknown else []
    by = f" by {' and '.join(culprits)}" if culprits else ""
    texts = {**_CLOSED, "blocked": f"blocked{by}: {_BLOCKED}"}
    closed = _closed(report)
    return ", ".join(f"{closed[why]} {what}" for why, what in texts.items() if closed.get(why))


def _closed(report: Row) -> Mapping[str, int]:
    # A node of an older version reports no more than the number of those that cannot.
    return report.get("closed") or {"blocked": report.get("unable") or 0}


def threads_left(report: Row) -> str | None:
    """Return what threads of ended jobs keep in the workers of a node that can start others."""
    left = report.get("left")
    if not left:
        return None
    return f"threads that go on after the ends of {_jobs(left['jobs'])} keep {left['weight']:,}"


def _jobs(ids: Sequence[int]) -> str:
    return f"{'job' if len(ids) == 1 else 'jobs'} {joined([*map(str, ids)], most=10)}"


IMPORTING: Final = "its workers are starting: the application is being imported"
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
        return WorkerObstacle(
            f"the database refuses its statements: {lacking}", remedy=remedy_of_right(report)
        )
    if report.get("may_claim") in (True, None):
        return None
    refusal = report.get("refused") or {}
    what = f"the database refuses its claims: {refusal.get('said')}"
    return WorkerObstacle(what, remedy=remedy_of_refusal(refusal))


def remedy_of_refusal(refusal: Row) -> str:
    """Return what an operator does about a statement that the database has refused."""
    code = refusal.get("sqlstate")
    return GRANT if code == INSUFFICIENT_PRIVILEGE else remedy_of(code)


def remedy_of_right(node: Row) -> str:
    """Return what gives a node's role the right that it lacks."""
    return node.get("right_remedy") or GRANT


def no_node(last: Row | None, waiting: str = "") -> tuple[str, str]:
    """Return that no node runs, and the remedy.

    Args:
        last: The node that was the last to fall silent; None if all were stopped.
        waiting: What waits for one, to be added to the sentence.
    """
    remedy = "start one: txqueue node --app MODULE"
    if last is None:
        return f"no node runs{waiting}", remedy
    lacking = last.get("lacking_right")
    why = f", and {lacking}" if lacking else ""
    what = f"no node has run for {age(last['heartbeat_seconds'])}, the last was {last['name']}"
    return f"{what}{why}{waiting}", remedy_if_silent(last, remedy)


def unserved(queue: str, last: Row | None, which_has: str = "") -> tuple[str, str]:
    """Return that no live node serves a queue, and the remedy; ``last`` did."""
    what = f"no live node serves the queue {queue}{which_has}"
    return _unless_silent(what, f"start a node with {queues_option(queue)}", last)


def unknown(
    work_type: str, last: Row | None, which_has: str = "", *, is_published: bool = True
) -> tuple[str, str]:
    """Return that no live node has a work type, or none ever registered it, and the remedy.

    Args:
        work_type: The work type.
        last: The silent node that had it last; None for none.
        which_has: What is to be said of the work type.
        is_published: Whether any node has ever registered it.
    """
    no_node_has = "no live node has" if is_published else "no node has ever registered"
    return _unless_silent(f"{no_node_has} the work type {work_type}{which_has}", ADD_TYPE, last)


ADD_TYPE: Final = "start a node whose --app defines it"


def _unless_silent(what: str, remedy: str, last: Row | None) -> tuple[str, str]:
    """Add to what no live node does, and to the remedy, the silent node that did it last."""
    if last is None:
        return what, remedy
    lacking = last.get("lacking_right")
    why = f", and {lacking}" if lacking else ""
    did = f"node {last['name']} did, whose last heartbeat was {age(last['heartbeat_seconds'])} ago"
    return f"{what}; {did}{why}", remedy_if_silent(last, remedy)


def remedy_if_silent(node: Row, otherwise: str) -> str:
    """Return what to do where only a silent node did what is needed."""
    if node.get("lacking_right"):
        return remedy_of_right(node)
    return (
        f"see the process and the log of node {node['name']} on {node['hostname']}: it may have"
        f" ended, be stopped or cut off, or be refused by the server; or {otherwise}"
    )


def to_undrain(names: Sequence[str]) -> str:
    """Return what to do if all nodes that could run a job are draining."""
    undrain = f"txqueue undrain {argument(min(names))}"
    return f"start another node, or, unless it is stopping: {undrain}"


@frozen
class HeldType:
    """A work type that the deploy guard holds on a version of the application.

    Attributes:
        work_type: The work type.
        application: The version of the application.
        error: The first line of the last error that held it.
        failed: How many runs had failed so.
        runs: Of how many.
    """

    work_type: str
    application: str
    error: str
    failed: int
    runs: int

    def __str__(self) -> str:
        """Return what is held, and why, in one line."""
        why = f"{self.error} ({self.failed:,} of {self.runs:,})"
        return f"held: {self.work_type} on {self.application}: {why}"

    @property
    def remedy(self) -> str:
        """What ends the hold."""
        return (
            "deploy a version without that failure, or the former one; or let it go on:"
            f" txqueue release {argument(self.work_type)}"
        )
