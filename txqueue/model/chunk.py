"""Chunks: the JSON text in which the jobs of an assignment travel to a worker.

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
from collections.abc import Iterator
from typing import Any

from attrs import define, fields, frozen

__all__ = ["FIELDS", "AssignedJob", "MalformedChunk", "Unreadable", "chunk_of_one", "read_chunk"]


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
_LARGEST_ID, _LARGEST = 2**63 - 1, 2**31 - 1
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
        and 0 < job.attempt <= _LARGEST
        and 0 < job.weight <= _LARGEST
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
