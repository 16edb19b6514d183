"""Why a node starts no job, by what it has reported; numbers of live jobs by name; and how warnings
are given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec

from attrs import field, frozen

from txqueue.model.humanize import age, argument, counted, joined
from txqueue.model.sqlstates import INSUFFICIENT_PRIVILEGE, remedy_of

Row = Mapping[str, Any]

UNENDED = ("waiting", "ready", "assigned")
STATES = (*UNENDED, "failed")
"""The states of live jobs, failed ones included."""

SERVING = ("alive", "draining")
"""The states of nodes that have a lease."""

MOST_SERVED = 1000
"""How many of the queues and work types that nodes serve are listed, whatever jobs they have."""


@frozen
class Rest:
    """The queues, or work types, that are left out of a list, together.

    Attributes:
        names: How many there are.
        jobs: The number of their jobs in each state.
    """

    names: int = 0
    jobs: Mapping[str, int] = field(factory=dict)

    def as_dict(self) -> dict[str, int]:
        """Return all numbers."""
        return {"names": self.names, **{state: self.jobs.get(state, 0) for state in STATES}}


@frozen
class LiveJobs:
    """The numbers of jobs that are not history; names may be very many, so that only some are kept.

    Attributes:
        queues: Of the queues with the most jobs, and those that nodes serve: by queue, state and
            waiting_for.
        work_types: Of the work types with the most jobs, and those that nodes have: by work_type
            and state.
        other_queues: The queues left out; no node serves one of them, unless nodes serve more than
            `MOST_SERVED`.
        other_types: The work types left out, likewise.
    """

    queues: Sequence[Row]
    work_types: Sequence[Row]
    other_queues: Rest = Rest()
    other_types: Rest = Rest()


def served_queues(
    nodes: Iterable[Row], states: Collection[str] = ("alive",)
) -> dict[str, list[str]]:
    """Return which of the nodes serve each queue, of those in some states."""
    served: dict[str, list[str]] = {}
    for node in nodes:
        if node["state"] in states:
            for queue in node["queues"]:
                served.setdefault(queue, []).append(node["name"])
    return served


P = ParamSpec("P")
Warned = tuple[str, str, str, str]

MOST_WARNED = 20
"""How many warnings of a kind are given; one more says how many others there are."""


def listed(warn: Callable[P, Iterable[Warned]]) -> Callable[P, list[dict[str, str]]]:
    """Have a function return its warnings, all of a kind, as dictionaries.

    Args:
        warn: Yields ``kind, subject, what, remedy`` for each.
    """

    @wraps(warn)
    def few(*args: P.args, **options: P.kwargs) -> list[dict[str, str]]:
        all_warned = list(warn(*args, **options))
        first, left = all_warned[:MOST_WARNED], len(all_warned) - MOST_WARNED
        if left > 0:
            kind = first[-1][0]
            what = f"{counted(left, 'more warning')} of this kind: {kind.replace('_', ' ')}"
            first.append((kind, "", what, "as for those before"))
        return [
            dict(zip(("kind", "subject", "what", "remedy"), warning, strict=True))
            for warning in first
        ]

    return few


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
    # A node of an older version reports no more than the number of those that cannot.
    closed = report.get("closed") or {"blocked": report.get("unable") or 0}
    if not workers and closed.get("starting"):
        return WorkerObstacle(IMPORTING, is_passing=True)
    if not workers:
        return WorkerObstacle(_NO_WORKER, remedy=_SEE_IMPORT)
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


def because_silent(node: Row | None, silent: float) -> str:
    """Return which node did what no live one does, to be added to a sentence about that."""
    if node is None:
        return ""
    lacking = node.get("lacking_right")
    why = f", and {lacking}" if lacking else ""
    return f"; node {node['name']} did, whose last heartbeat was {age(silent)} ago{why}"


def remedy_if_silent(node: Row | None, otherwise: str) -> str:
    """Return what to do where only a silent node did what is needed, or none: ``otherwise``."""
    if node is None:
        return otherwise
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
