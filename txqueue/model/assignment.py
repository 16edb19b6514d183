"""Assignments, and chunks: the JSON text in which the jobs of an assignment travel to a worker.

A chunk is one JSON object that names its fields once, whatever the number of its jobs::

    {"fields": ["job_id", "work_type", "attempt", "weight", "payload", "terms"],
     "jobs": [[17, "mail.welcome", 1, 1, {"user_id": 7}, null], ...]}

``attempt`` is the number of the next run, from 1. ``terms`` are the options that the job was
enqueued with; the database adds ``grouped`` for a job that counts for a limit, and ``left``, the
seconds until its ``not_after``. The stored functions ``chunk_of()`` and ``chunk_entry()`` write
chunks, and so does a client that enqueues by direct dispatch (`chunk_of_one`). Only workers parse
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, fields, frozen

from txqueue.model.job import Token

__all__ = [
    "FIELDS",
    "AssignedJob",
    "Assignment",
    "CancelledJob",
    "CompletedJobs",
    "JobKey",
    "PassedJobs",
    "ReturnedJobs",
    "SettledJob",
    "SettledJobs",
    "StartedJob",
    "Unreadable",
    "chunk_of_one",
    "read_chunk",
]


@frozen
class Assignment:
    """Jobs of one lane that are given to one node together.

    Attributes:
        incarnation: The run of the node; with the number it is the fencing token.
        number: Unique among all assignments of the queue.
        lane: The lane of the assigned partition that has its jobs.
        jobs: How many jobs it has.
        weight: The sum of their weights.
        chunk: The jobs as JSON text, which the master does not parse; empty if only the number is
            known.
        is_alone: Whether its job is a suspect, which needs a process that runs nothing else.
        asked_at: When the claim was sent, by the monotonic clock; ``left`` counts from then or
            later.
    """

    incarnation: int
    number: int
    lane: int
    jobs: int
    weight: int
    chunk: str
    is_alone: bool = False
    asked_at: float = float("-inf")

    @property
    def token(self) -> Token:
        """The fencing token: every write about its jobs names it."""
        return Token(self.incarnation, self.number)


@define
class AssignedJob:
    """A job of a chunk. Not frozen: creating a frozen one takes twice as long.

    Attributes:
        job_id: The job's number.
        work_type: The name of its work type.
        attempt: The number of the next run, from 1.
        weight: Its share of the worker's capacity.
        payload: The fields of its work item; `Unreadable` if Python cannot parse them.
        terms: Its terms, an object; None for none.
    """

    job_id: int
    work_type: str
    attempt: int
    weight: int
    payload: Any
    terms: Any = None


class JobKey(NamedTuple):
    """What identifies an assigned job: the number of its assignment and its own number."""

    assignment: int
    job_id: int


@frozen
class CancelledJob:
    """An assigned job to cancel, and the operator that cancelled it."""

    assignment: int
    job_id: int
    who: str


@frozen
class StartedJob:
    """A report of a running job.

    Attributes:
        assignment: Its assignment.
        job_id: The job's number.
        seconds: How long it has been running.
        progress: Its progress as JSON text, if that has changed since the last report.
    """

    assignment: int
    job_id: int
    seconds: float
    progress: str | None

    @property
    def key(self) -> JobKey:
        """The number of the job's assignment and the job's own number."""
        return JobKey(self.assignment, self.job_id)


@frozen
class CompletedJobs:
    """Jobs of one assignment that are done.

    Attributes:
        lane: The lane that holds their rows.
        assignment: The number of the assignment.
        ids: Their numbers, joined by commas.
        results: The values that they returned, as the text of a JSON object by number; None for
            none.
    """

    lane: int
    assignment: int
    ids: str
    results: str | None = None


@frozen
class SettledJob:
    """How a job ended that did not just return.

    Attributes:
        job_id: The job's number.
        assignment: Its assignment.
        outcome: ``done``, ``retry``, ``snooze``, ``next``, ``failed`` or ``cancelled``.
        delay: Seconds until the next run, if there is one.
        error: The text to store with the job.
        result: The value that its handler returned, as JSON has it.
        progress: The last progress that its handler reported, as JSON has it.
        stage: The next stage, if the outcome is ``next``.
        unstarted: Whether it never ran.
    """

    job_id: int
    assignment: int
    outcome: str
    delay: float | None = None
    error: str | None = None
    result: Any = None
    progress: Any = None
    stage: Mapping[str, Any] | None = None
    unstarted: bool = False


@frozen
class SettledJobs:
    """A worker's report of jobs that did not just return.

    Attributes:
        outcomes: A `SettledJob` each, as JSON text, which the master does not parse; see
            `txqueue.store.outcomes`.
    """

    outcomes: str

    @property
    def jobs(self) -> int:
        """About how many jobs it reports."""
        return self.outcomes.count('"job_id"')


@frozen
class ReturnedJobs:
    """Jobs of one assignment that return to the queue.

    Attributes:
        assignment: The number of the assignment.
        ids: Their numbers; None for all jobs that are left of the assignment.
        died: Whether the process that held them died.
    """

    assignment: int
    ids: Sequence[int] | None = None
    died: bool = False


@frozen
class PassedJobs:
    """Jobs that were passed on to another node.

    Attributes:
        assignment: The number of their new assignment.
        jobs: How many jobs.
        weight: The sum of their weights.
        ids: The jobs' numbers.
    """

    assignment: int
    jobs: int
    weight: int
    ids: list[int]


FIELDS = [field.name for field in fields(AssignedJob)]
"""The fields of a chunk in the order of this version; those before the payload stay first."""

_HEAD = re.compile(r'\[(\d+),"([^"]*)",(\d+),(\d+),')
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]]')


@frozen
class Unreadable:
    """A payload that PostgreSQL accepts and Python cannot parse.

    Attributes:
        reason: The error of Python's parser.
    """

    reason: str


def chunk_of_one(
    job_id: int, work_type: str, weight: int, payload: str, terms: str = "null"
) -> str:
    """Return a chunk with one job that has not run yet, in the database's format.

    Args:
        job_id: The job's number.
        work_type: The name of its work type.
        weight: Its weight.
        payload: Its payload as JSON text.
        terms: Its terms as JSON text.
    """
    return f'{_OPENING}[{job_id},"{work_type}",1,{weight},{payload},{terms}]]}}'


_OPENING = f'{{"fields":{json.dumps(FIELDS, separators=(",", ":"))},"jobs":['


def read_chunk(chunk: str) -> list[AssignedJob]:
    """Parse the jobs of a chunk; a job that Python cannot parse does not affect the others."""
    try:
        said = json.loads(chunk)
    except (ValueError, RecursionError):
        return [_read(entry) for entry in _apart(chunk)]
    if said["fields"] == FIELDS:
        return [AssignedJob(*entry) for entry in said["jobs"]]
    return [_named(said["fields"], entry) for entry in said["jobs"]]


def _named(names: list[str], entry: list[Any]) -> AssignedJob:
    """Make a job from its fields by name, as a newer database may send more."""
    told = dict(zip(names, entry, strict=True))
    return AssignedJob(**{name: told[name] for name in FIELDS})


def _read(entry: str) -> AssignedJob:
    try:
        return AssignedJob(*json.loads(entry)[: len(FIELDS)])
    except (ValueError, RecursionError) as error:
        head = _HEAD.match(entry)
        assert head is not None, "the database writes numbers and names that need no escape"
        job_id, work_type, attempt, weight = head.groups()
        reason = Unreadable(f"{type(error).__name__}: {error}")
        return AssignedJob(int(job_id), work_type, int(attempt), int(weight), reason)


def _apart(chunk: str) -> Iterator[str]:
    """Divide a chunk into its entries by their brackets: arrays in an array."""
    depth = begin = 0
    for mark in _MARK.finditer(chunk):
        if mark[0] == "[":
            depth += 1
            if depth == 2:
                begin = mark.start()
        elif mark[0] == "]":
            if depth == 2:
                yield chunk[begin : mark.end()]
            depth -= 1
