"""A job as clients see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from attrs import field, fields, frozen

__all__ = ["COLUMNS", "JSON_COLUMNS", "Attempt", "Job", "State", "Token", "read_json"]


class State(StrEnum):
    """The states of a job; each is a partition of ``JOB``."""

    WAITING = "waiting"
    READY = "ready"
    ASSIGNED = "assigned"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether a job in this state never runs again by itself."""
        return self in (State.DONE, State.FAILED, State.CANCELLED)


@frozen
class Token:
    """What every write about an assignment names; a write with another token changes nothing."""

    incarnation: int
    assignment: int


@frozen
class Attempt:
    """A run of a job that failed.

    Attributes:
        number: Which run it was, from 1.
        began: When it was seen to run, or was assigned.
        ended: When it failed.
        node_id: The node that ran it.
        error: Its exception and traceback; shortened.
    """

    number: int
    began: datetime | None
    ended: datetime
    node_id: int | None
    error: str | None

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.began is None else (self.ended - self.began).total_seconds()


@frozen
class Job:
    """One row of ``JOB`` as it was when it was read. Moments are aware datetimes.

    A payload or result that PostgreSQL takes and Python's JSON does not is the JSON text.
    Neither shows in its ``repr``: logs are no place for them.

    Its ``progress`` is what its handler last said: ``[done, total, note]``. Its ``attempts`` are
    the runs that failed, the first one first, at most the latest hundred; read with one job only.
    """

    id: int
    work_type: str
    queue: str
    state: State
    priority: int
    weight: int
    attempt: int
    deaths: int
    group: str | None
    tenant: str | None
    waiting_for: str | None
    rank: datetime
    not_before: datetime
    not_after: datetime | None
    enqueued_at: datetime
    assigned_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    node_id: int | None
    payload: Any = field(repr=False)
    result: Any = field(repr=False)
    error: str | None
    progress: Any = None
    attempts: tuple[Attempt, ...] = ()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Job:
        """Make a job of a row of ``JOB`` with its column names, its JSON columns as text."""
        values = {"id" if name == "job_id" else name: row[name] for name in COLUMNS}
        read = {name: read_json(values[name]) for name in JSON_COLUMNS}
        return cls(**{**values, **read, "state": State(values["state"])})


COLUMNS = [
    "job_id" if field.name == "id" else field.name
    for field in fields(Job)
    if field.name != "attempts"
]
JSON_COLUMNS = frozenset({"payload", "result", "progress"})


def read_json(text: str | None) -> Any:
    """Return what a JSON text means; the text itself where it is too long or deep for Python."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
