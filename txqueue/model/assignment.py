"""Assignments: jobs that are given to a node together, the chunk in which they travel to a worker,
and what is reported of them.

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
from typing import Any, Final, NamedTuple

from attrs import define, field, fields, frozen

from txqueue.model.job import Token


@frozen
class Assignment:
    """Jobs of one lane that are given to one node together.

    Attributes:
        incarnation: The run of the node; with the number it is the fencing token.
        number: The assignment's number, which no other assignment of the queue has, not even one
            that a restored database has lost.
        lane: The lane of the assigned partition that has its jobs.
        jobs: How many jobs it has.
        weight: The sum of the jobs' weights.
        chunk: The jobs as JSON text, which the master does not parse; empty if only the number is
            known.
        is_alone: Whether its jobs are suspects, which need a process that runs no other jobs.
        asked_at: When the claim was sent, by the monotonic clock; the jobs' ``left`` counts from
            then or later.
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
        """The fencing token, which every write about the assignment's jobs names."""
        return Token(self.incarnation, self.number)


class JobKey(NamedTuple):
    """What identifies an assigned job: the number of its assignment and its own number."""

    assignment: int
    job_id: int


@frozen
class CancelledJob:
    """An assigned job whose run its node must end, as an operator has cancelled or restarted it.

    Attributes:
        assignment: The number of the job's assignment.
        job_id: The job's number.
        who: The operator.
        is_restart: Whether the job runs again.
    """

    assignment: int
    job_id: int
    who: str
    is_restart: bool = False


@frozen
class StartedJob:
    """A worker's report of a running job.

    Attributes:
        assignment: The number of the job's assignment.
        job_id: The job's number.
        seconds: How long the job has been running.
        progress: Its progress as JSON text; None if unchanged since the last report.
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
    """Jobs of one assignment that are done, with nothing to store but their results.

    Attributes:
        lane: The lane that holds the jobs' rows.
        assignment: The number of the assignment.
        ids: The jobs' numbers, joined by commas.
        results: The values that the handlers returned, as the text of a JSON object with job
            numbers as keys; None if there are none.
    """

    lane: int
    assignment: int
    ids: str
    results: str | None = None


@define
class SettledJob:
    """The outcome of one job, with everything that the database stores about it.

    Not frozen, as `AssignedJob` is not.

    A job that is done is usually part of a `CompletedJobs` instead. It has an outcome of its own
    if its last progress is stored too, or if writing many completions together has failed.

    Attributes:
        job_id: The job's number.
        assignment: The number of the job's assignment.
        outcome: ``done``, ``retry``, ``snooze``, ``next``, ``unread``, ``suspended``, ``failed`` or
            ``cancelled``.
        delay: Seconds until the next run, if there is one.
        error: The text to store with the job.
        result: The value that the handler returned, as plain data that fits JSON.
        progress: The last progress that the handler reported, as plain data that fits JSON.
        stage: The next stage, if the outcome is ``next``.
        unstarted: Whether the job never ran.
        error_class: The module and name of the class of the error, if the attempt failed by one.
        log: The last entries that a failed attempt has logged, a line for each.
        version: The version of the work type that could not read the payload; see `type_version`.
        waits: The steps for which the job waits, if the outcome is ``suspended``.
        application: The version of the application that ran a failed attempt.
        frames: The part of the error that failures at the same place share, so that a report has it
            once; see `framed`. None if it has no such part.
        cost: What the run has cost of its group's rate; None for the job's weight.
        throttled: Whether no other job of its group, tenant or queue starts before the next run.
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
    error_class: str | None = None
    log: str | None = None
    version: str | None = None
    waits: Sequence[Mapping[str, Any]] | None = None
    application: str | None = None
    frames: str | None = field(default=None, eq=False)
    cost: float | None = None
    throttled: bool | None = None


def framed(line: str, frames: str) -> str:
    """Return the text of an error: its line, and the frames before the same line."""
    return f"{line}\n\n{frames}{line}"


_ASSIGNMENTS: Final = re.compile('"assignment": ?([0-9]+)')


@frozen
class SettledJobs:
    """A worker's report of one or more `SettledJob`.

    Attributes:
        outcomes: The outcomes as JSON text, which the master does not parse; see
            `txqueue.store.node.outcomes`.
    """

    outcomes: str

    @property
    def jobs(self) -> int:
        """The approximate number of jobs in the report, counted without parsing its text."""
        return self.outcomes.count('"job_id"')

    @property
    def assignments(self) -> set[int]:
        """The assignments of the jobs, and perhaps others, found without parsing the text."""
        return {int(number) for number in _ASSIGNMENTS.findall(self.outcomes)}


@frozen
class ReturnedJobs:
    """Jobs of one assignment that return to the queue.

    Attributes:
        assignment: The number of the assignment.
        ids: The jobs' numbers; None for all jobs that are left of the assignment.
        died: Whether the process that held the jobs died.
    """

    assignment: int
    ids: Sequence[int] | None = None
    died: bool = False


@frozen
class PassedJobs:
    """Jobs that were passed on to another node.

    Attributes:
        assignment: The number of the new assignment that they form.
        jobs: How many jobs were passed on.
        weight: The sum of the jobs' weights.
        ids: The jobs' numbers.
    """

    assignment: int
    jobs: int
    weight: int
    ids: list[int]


CLOCK_BITS = 22
"""The low bits of an assignment's number that hold parts of a second; see next_assignment.sql."""


def place_of(assignment: int) -> int:
    """Return the place of an assignment in the order of all, which grows one by one."""
    # Numbers of older code have no parts of a second.
    return assignment >> CLOCK_BITS or assignment


# As notify_run() writes it.
_NOTIFIED = re.compile(r"([0-9]{1,10}) ([0-7]) ([0-9]{1,19}) (.+)", re.DOTALL)
_LARGEST = 2**63 - 1


def notified_job(text: str) -> Assignment | None:
    """Return the job of a notification; None for a text of another kind, as newer code may send."""
    match = _NOTIFIED.fullmatch(text)
    if match is None or (number := int(match[3])) > _LARGEST:
        return None
    return Assignment(int(match[1]), number, int(match[2]), 1, 1, match[4])


@define
class AssignedJob:
    """A job of a chunk. Not frozen: creating a frozen one takes twice as long.

    Attributes:
        job_id: The job's number.
        work_type: The name of its work type.
        attempt: The number of the next run, from 1.
        weight: Its share of the worker's capacity.
        payload: The fields of its work item; `Unreadable` if Python cannot parse them.
        terms: The job's terms, a JSON object; None if it has none.
    """

    job_id: int
    work_type: str
    attempt: int
    weight: int
    payload: Any
    terms: Any = None


FIELDS = [field.name for field in fields(AssignedJob)]
"""The fields of a chunk in this version's order; later versions keep those before the payload."""

# What `json.loads` calls, after it has looked at the kind of its argument.
_decode = json.JSONDecoder().decode
_HEAD = re.compile(r'\[(\d+),"([^"]*)",(\d+),(\d+),')
_LARGEST_ID, _LARGEST_INTEGER = 2**63 - 1, 2**31 - 1
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


class MalformedChunk(Exception):
    """A text is not a chunk as the database writes it."""


def read_chunk(chunk: str) -> list[AssignedJob]:
    """Parse the jobs of a chunk; a payload that Python cannot parse does not affect other jobs.

    Raises:
        MalformedChunk: When the text is no chunk. The error quotes nothing of it.
    """
    try:
        jobs = _parsed(chunk)
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise MalformedChunk(
            f"it is not in the format of chunks ({type(error).__name__})"
        ) from None
    if not all(map(_is_sound, jobs)):
        raise MalformedChunk("a job has a number or a work type that no job can have")
    return jobs


def _parsed(chunk: str) -> list[AssignedJob]:
    try:
        document = _decode(chunk)
    except (ValueError, RecursionError):
        return [_read(entry) for entry in _apart(chunk)]
    if document["fields"] == FIELDS:
        return [AssignedJob(*entry) for entry in document["jobs"]]
    return [_named(document["fields"], entry) for entry in document["jobs"]]


def _is_sound(job: AssignedJob) -> bool:
    """Whether a job has values that fit the columns of the database."""
    return (
        type(job.job_id) is type(job.attempt) is type(job.weight) is int
        and type(job.work_type) is str
        and 0 <= job.job_id <= _LARGEST_ID
        and 0 < job.attempt <= _LARGEST_INTEGER
        and 0 < job.weight <= _LARGEST_INTEGER
    )


def _named(names: list[str], entry: list[Any]) -> AssignedJob:
    """Make a job from its fields by name: the chunk of a newer database may have more fields."""
    values = dict(zip(names, entry, strict=True))
    return AssignedJob(**{name: values[name] for name in FIELDS})


def _read(entry: str) -> AssignedJob:
    try:
        return AssignedJob(*json.loads(entry)[: len(FIELDS)])
    except (ValueError, RecursionError) as error:
        head = _HEAD.match(entry)
        if head is None:
            # The database writes numbers, and names that need no escape.
            raise
        job_id, work_type, attempt, weight = head.groups()
        reason = Unreadable(f"{type(error).__name__}: {error}")
        return AssignedJob(int(job_id), work_type, int(attempt), int(weight), reason)


def _apart(chunk: str) -> Iterator[str]:
    """Divide the text of a chunk into the texts of its jobs, by counting brackets."""
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
