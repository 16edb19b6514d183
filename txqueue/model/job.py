"""A job as clients read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, cast

from attrs import field, fields, frozen

from txqueue.errors import InvalidWork
from txqueue.model.humanize import brief
from txqueue.model.storable import is_number, read_json

# The largest number of a bigint column.
_LAST_NUMBER = (1 << 63) - 1
# Seconds; the timers of Python take no more than some hundred years.
_FOREVER = 1e9


def job_number(value: object) -> int:
    """Return a job's number, which may be given as text, such as a part of a URL.

    Raises:
        InvalidWork: When it is not a whole number that a job can have.
    """
    is_text = isinstance(value, str) and value.isascii() and value.isdecimal()
    if (is_text or type(value) is int) and 0 < (number := int(str(value)[:20])) <= _LAST_NUMBER:
        return number
    raise InvalidWork(
        f"{str(value)[:50]!r} is not the number of a job", "pass the number that enqueue() returned"
    )


def wait_limit(value: object) -> float | None:
    """Return in seconds how long a caller waits for a job; None for no limit.

    Raises:
        InvalidWork: When it is neither a number nor a timedelta.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds is None or seconds == math.inf:
        return None
    if is_number(seconds, _FOREVER):
        return max(0.0, float(cast("float", seconds)))
    raise InvalidWork(
        f"timeout {brief(value)} is not a length of time",
        "give seconds or a timedelta, or None for no limit",
    )


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
    """The fencing token of an assignment; a write that names a stale token changes nothing."""

    incarnation: int
    assignment: int


@frozen
class Attempt:
    """A failed run of a job.

    Attributes:
        number: The number of the run, from 1.
        began: When the node first reported the run; when the job was assigned, if it never did.
        ended: When the run failed.
        node_id: The node that ran it.
        error: The exception and its traceback, shortened.
        error_class: The module and name of the exception's class, such as ``builtins.ValueError``;
            None if the run failed otherwise, or before txqueue stored it.
        log: The last entries that the run logged, a line for each; None for none. Redacted work
            keeps none.
    """

    number: int
    began: datetime | None
    ended: datetime
    node_id: int | None
    error: str | None
    error_class: str | None = None
    log: str | None = field(default=None, repr=False)

    @property
    def seconds(self) -> float | None:
        """The length of the run; None if its start is not known."""
        return None if self.began is None else (self.ended - self.began).total_seconds()


@frozen
class Job:
    """One row of ``JOB`` as it was when it was read. Its timestamps have time zones.

    A payload or result that Python's JSON parser refuses is left as JSON text. The ``repr`` has
    neither payload nor result, so that they stay out of logs.

    ``progress`` is the handler's last report: ``[done, total, note]``. ``attempts`` are the latest
    hundred failed runs, the oldest first; only a job that was read alone has them.
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

    @property
    def updated_at(self) -> datetime:
        """When it was last enqueued, assigned, started, failed in an attempt, or ended."""
        times = [self.assigned_at, self.started_at, self.finished_at]
        attempts = [attempt.ended for attempt in self.attempts]
        return max(self.enqueued_at, *filter(None, times), *attempts)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Job:
        """Make a job from a row of ``JOB``: values by column name, JSON columns as text."""
        values = {"id" if name == "job_id" else name: row[name] for name in COLUMNS}
        read = {name: read_json(values[name]) for name in JSON_COLUMNS}
        return cls(**{**values, **read, "state": State(values["state"])})


COLUMNS = [
    "job_id" if field.name == "id" else field.name
    for field in fields(Job)
    if field.name != "attempts"
]
JSON_COLUMNS = frozenset({"payload", "result", "progress"})
