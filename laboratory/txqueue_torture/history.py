"""The record of a scenario's run: enqueues, starts and ends, faults, and the jobs' outcomes."""

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
    """A client's enqueue and its outcome.

    Attributes:
        intent: The client's name for the job, which the job's payload contains.
        kind: The kind of work.
        outcome: ``attempted`` (the client recorded no outcome), ``acknowledged``, ``refused``,
            ``unknown`` or ``rolled back``.
        job_id: The job's number, if the client received it.
        not_before: Seconds since 1970 by the database's clock; None for at once.
        not_after: Seconds since 1970 by the database's clock; None for no such time.
        expires: Whether an unstarted job is cancelled at its ``not_after``.
        group: The job's group.
        mono: When the client began to enqueue, by the host's monotonic clock.
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
    """One run of a job, as its handler recorded it.

    Attributes:
        began: When the run started, by the host's monotonic clock.
        began_at: When the run started, by the database's clock; None if the database did not
            answer.
        ended: When the run ended, by the host's monotonic clock; None if no end was recorded.
        ended_at: When the run ended, by the database's clock.
        how: ``returned``, ``raised``, ``committed``, ``token lost``, ``cancelled``,
            ``snoozed`` or ``suspended``; None if no end was recorded.
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
        nodes: The names of the nodes that the fault hit; None for all.
        pids: The processes that the fault hit.
        frozen: Whether the fault stopped processes that resumed later.
        began: When the fault began, by the host's monotonic clock.
        ended: When the fault was over, by the same clock.
        evidence: What proves that the fault happened; empty without proof.
        assigned: ``(job_id, assignment)`` of all jobs that the nodes held when the fault began;
            None if that is unknown.
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
        """Whether the processes in ``pids`` died."""
        return "kill" in self.kind

    def hurts(self, node: str) -> bool:
        """Tell whether the fault hit a node."""
        return self.nodes is None or node in self.nodes


@frozen(kw_only=True)
class FinalJob:
    """A job's row at the end of the scenario; ``finished_at`` is in seconds since 1970."""

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
    """The end of a scenario, with times by the host's monotonic clock.

    Attributes:
        healed: When the last fault was over and all clients had stopped.
        ended: When no job was left, or the wait for that timed out.
        left: How many jobs were still waiting, ready or assigned.
    """

    healed: float
    ended: float
    left: int


@frozen(kw_only=True)
class History:
    """All that the processes of a scenario have recorded, and the jobs' rows at its end.

    Attributes:
        enqueues: The clients' enqueues, by intent.
        runs: The runs of jobs, in the order of their starts.
        faults: The injected faults, in the order in which they began.
        jobs: The jobs' rows at the end, by number.
        effects: How many rows each job wrote in the transaction that completed it.
        drain: The end of the scenario; None if it was not reached.
        lease: The nodes' lease: seconds of silence after which a node is presumed dead.
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
        runs: dict[int, list[JobRun]] = defaultdict(list)
        for run in self.runs:
            runs[run.job_id].append(run)
        return runs


def lines_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the records in a folder, except the incomplete last ones of killed processes."""
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
    """Assemble a `History`.

    Args:
        lines: The records of all processes.
        jobs: The rows of the jobs at the end.
        effects: How many rows each job wrote in the transaction that completed it.
        lease: The nodes' lease in seconds.
    """
    by_kind: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        by_kind[line["what"]].append(line)
    drains = [_object_of(EndOfRun, line) for line in by_kind["drain"]]
    return History(
        enqueues=_enqueues(by_kind["enqueue"]),
        runs=tuple(sorted(_runs(by_kind["start"], by_kind["end"]), key=lambda run: run.began)),
        faults=tuple(sorted(map(_fault, by_kind["fault"]), key=lambda fault: fault.began)),
        jobs={row["job_id"]: _object_of(FinalJob, row) for row in jobs},
        effects=effects,
        drain=drains[-1] if drains else None,
        lease=lease,
    )


def _enqueues(lines: Iterable[Mapping[str, Any]]) -> dict[str, Enqueue]:
    """Return each enqueue by intent, with the outcome of its last record."""
    entries: dict[str, dict[str, Any]] = {}
    for line in lines:
        known = entries.setdefault(line["intent"], {})
        if line["outcome"] == "attempted":
            entries[line["intent"]] = {**line, **known}
        else:
            known |= {"intent": line["intent"], "outcome": line["outcome"]}
            known["job_id"] = line.get("job_id")
    return {intent: _object_of(Enqueue, known) for intent, known in entries.items()}


def _runs(
    starts: Iterable[Mapping[str, Any]], ends: Iterable[Mapping[str, Any]]
) -> Iterator[JobRun]:
    ended: dict[tuple[int, int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for end in sorted(ends, key=lambda line: float(line["mono"])):
        ended[_key(end)].append(end)
    for start in sorted(starts, key=lambda line: float(line["mono"])):
        own_ends = ended[_key(start)]
        over = own_ends.pop(0) if own_ends else {}
        values = {"began": start["mono"], "began_at": start.get("at")}
        values |= {"ended": over.get("mono"), "ended_at": over.get("at"), "how": over.get("how")}
        yield _object_of(JobRun, {**start, **values})


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


def _object_of(cls: type[T], values: Mapping[str, Any]) -> T:
    names = {attribute.name for attribute in fields(cls)}  # type: ignore[arg-type] # all are attrs classes
    return cls(**{name: value for name, value in values.items() if name in names})
