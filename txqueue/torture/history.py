"""The history of a run: enqueues, starts and ends, faults, and the jobs' outcomes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, fields, frozen

__all__ = [
    "EndOfRun",
    "Enqueue",
    "Fault",
    "FinalJob",
    "History",
    "JobRun",
    "lines_of",
    "read_history",
]

T = TypeVar("T")

SUFFIX = ".jsonl"


@frozen(kw_only=True)
class Enqueue:
    """An intended enqueue and its outcome.

    Attributes:
        intent: The client's name for the job, which the payload carries.
        kind: The kind of work.
        outcome: attempted (no record after it), acknowledged, refused, unknown or rolled back.
        job_id: The job's number, if the client received it.
        not_before: Seconds since 1970 by the database's clock; None for at once.
        not_after: The same; None for never.
        expires: Whether ``not_after`` is an expiry.
        group: The job's group.
        mono: When it was attempted, by the host's monotonic clock.
    """

    intent: str
    kind: str = ""
    outcome: str = "attempted"
    job_id: int | None = None
    not_before: float | None = None
    not_after: float | None = None
    expires: bool = False
    group: str | None = None
    mono: float = 0.0


@frozen(kw_only=True)
class JobRun:
    """One run of a job, from the start to the end that its handler recorded, if it did.

    Attributes:
        began: When it started, by the host's monotonic clock.
        began_at: The same by the database's clock; None if the database did not answer.
        ended: When it ended; None if its process died before recording it.
        ended_at: The same by the database's clock.
        how: returned, raised, committed, token lost, cancelled or snoozed; None without an end.
    """

    intent: str
    job_id: int
    attempt: int
    incarnation: int
    assignment: int
    node: str
    pid: int
    group: str | None = None
    began: float
    began_at: float | None = None
    ended: float | None = None
    ended_at: float | None = None
    how: str | None = None


@frozen(kw_only=True)
class Fault:
    """One injected fault.

    Attributes:
        nodes: The nodes that it hit; None for all.
        pids: The processes that it hit.
        frozen: Whether it stopped processes that resumed later.
        began: When it began, by the host's monotonic clock.
        ended: When it was over.
        evidence: What proves that it happened; empty without proof.
        assigned: ``(job_id, assignment)`` of all jobs that the nodes held at that moment; None
            if that is unknown.
    """

    kind: str
    nodes: tuple[str, ...] | None = None
    pids: frozenset[int] = frozenset()
    frozen: bool = False
    began: float
    ended: float
    evidence: str = ""
    assigned: frozenset[tuple[int, int]] | None = None

    @property
    def is_killing(self) -> bool:
        """Whether its processes died."""
        return "kill" in self.kind

    def hurts(self, node: str) -> bool:
        """Tell whether it hit a node."""
        return self.nodes is None or node in self.nodes


@frozen(kw_only=True)
class FinalJob:
    """A job's row at the end. ``finished_at`` is in seconds since 1970 by the database's clock."""

    job_id: int
    intent: str | None
    state: str
    finished_at: float | None = None
    attempt: int = 0
    deaths: int = 0
    error: str | None = None
    incarnation: int | None = None
    assignment: int | None = None


@frozen(kw_only=True)
class EndOfRun:
    """The end of the run.

    Attributes:
        healed: When the last fault was over and all clients had stopped.
        ended: When no job was left, or the wait timed out.
        left: How many jobs were still waiting, ready or assigned.
    """

    healed: float
    ended: float
    left: int


@frozen(kw_only=True)
class History:
    """The whole history of a run.

    Attributes:
        enqueues: By intent.
        runs: In the order of their starts.
        faults: In the order of their beginnings.
        jobs: The rows at the end, by number.
        effects: How many rows each job wrote in the transaction that completed it.
        drain: The end of the run; None if it was not reached.
        lease: seconds of silence after which a node is presumed dead.
    """

    enqueues: Mapping[str, Enqueue] = field(factory=dict)
    runs: tuple[JobRun, ...] = ()
    faults: tuple[Fault, ...] = ()
    jobs: Mapping[int, FinalJob] = field(factory=dict)
    effects: Mapping[int, int] = field(factory=dict)
    drain: EndOfRun | None = None
    lease: float = 10.0

    def runs_by_job(self) -> dict[int, list[JobRun]]:
        """The runs of each job, in the order of their starts."""
        found: dict[int, list[JobRun]] = defaultdict(list)
        for run in self.runs:
            found[run.job_id].append(run)
        return found


def lines_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield all lines recorded in a folder, except the incomplete last line of a killed process."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        for text in path.read_text("utf-8", "replace").splitlines():
            try:
                yield json.loads(text)
            except ValueError:
                continue


def read_history(
    lines: Iterable[Mapping[str, Any]],
    jobs: Iterable[Mapping[str, Any]],
    effects: Mapping[int, int],
    lease: float,
) -> History:
    """Assemble a history.

    Args:
        lines: The recorded lines.
        jobs: The rows of the jobs at the end.
        effects: How many effects each job has.
        lease: The nodes' lease, seconds.
    """
    by_kind: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        by_kind[line["what"]].append(line)
    drains = [_made(EndOfRun, line) for line in by_kind["drain"]]
    return History(
        enqueues=_enqueues(by_kind["enqueue"]),
        runs=tuple(sorted(_runs(by_kind["start"], by_kind["end"]), key=lambda run: run.began)),
        faults=tuple(sorted(map(_fault, by_kind["fault"]), key=lambda fault: fault.began)),
        jobs={row["job_id"]: _made(FinalJob, row) for row in jobs},
        effects=effects,
        drain=drains[-1] if drains else None,
        lease=lease,
    )


def _enqueues(lines: Iterable[Mapping[str, Any]]) -> dict[str, Enqueue]:
    """Return the last known state of each enqueue: its outcome follows its attempt."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        known = found.setdefault(line["intent"], {})
        if line["outcome"] == "attempted":
            found[line["intent"]] = {**line, **known}
        else:
            known |= {"intent": line["intent"], "outcome": line["outcome"]}
            known["job_id"] = line.get("job_id")
    return {intent: _made(Enqueue, known) for intent, known in found.items()}


def _runs(
    starts: Iterable[Mapping[str, Any]], ends: Iterable[Mapping[str, Any]]
) -> Iterator[JobRun]:
    ended: dict[tuple[int, int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for end in sorted(ends, key=lambda line: float(line["mono"])):
        ended[_key(end)].append(end)
    for start in sorted(starts, key=lambda line: float(line["mono"])):
        its = ended[_key(start)]
        over = its.pop(0) if its else {}
        told = {"began": start["mono"], "began_at": start.get("at")}
        told |= {"ended": over.get("mono"), "ended_at": over.get("at"), "how": over.get("how")}
        yield _made(JobRun, {**start, **told})


def _key(line: Mapping[str, Any]) -> tuple[int, int, int]:
    return line["job_id"], line["assignment"], line["pid"]


def _fault(line: Mapping[str, Any]) -> Fault:
    nodes, assigned = line.get("nodes"), line.get("assigned")
    return Fault(
        kind=line["kind"],
        nodes=None if nodes is None else tuple(nodes),
        pids=frozenset(line.get("pids") or ()),
        frozen=bool(line.get("frozen")),
        began=line["from"],
        ended=line["to"],
        evidence=line.get("evidence") or "",
        assigned=None if assigned is None else frozenset((job, token) for job, token in assigned),
    )


def _made(cls: type[T], values: Mapping[str, Any]) -> T:
    names = {each.name for each in fields(cls)}  # type: ignore[arg-type] # all are attrs classes
    return cls(**{name: value for name, value in values.items() if name in names})
