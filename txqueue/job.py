"""A job as clients see it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from attrs import fields, frozen

__all__ = ["Job", "State", "Token"]


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
class Job:
    """One row of ``JOB`` as it was when it was read. Moments are aware datetimes."""

    id: int
    work_type: str
    queue: str
    state: State
    priority: int
    weight: int
    attempt: int
    deaths: int
    group: str | None
    waiting_for: str | None
    rank: datetime
    not_before: datetime
    not_after: datetime | None
    enqueued_at: datetime
    assigned_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    node_id: int | None
    payload: dict[str, Any]
    result: Any
    error: str | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Job:
        """Make a job of a row of ``JOB`` with its column names."""
        values = {name: row["job_id" if name == "id" else name] for name in _NAMES}
        return cls(**{**values, "state": State(values["state"])})


_NAMES = [attribute.name for attribute in fields(Job)]
