"""The statements that read a job, its failed attempts and the installation, for the driver of an
application.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import field, frozen

from txqueue.model.job import State
from txqueue.model.storable import read_json
from txqueue.store.schema.files import FIND, IDENTITY, checked_name


@frozen
class StoredJob:
    """What an application reads of a job that it has enqueued.

    ``runs`` is the number of runs that have ended; ``node`` the name of the node that has the job,
    or had it last, or its number if the node is gone.
    """

    id: int
    work_type: str
    state: State = field(converter=State)
    runs: int
    payload: Any = field(converter=read_json, repr=False)
    result: Any = field(converter=read_json, repr=False)
    error: str | None
    enqueued_at: datetime
    assigned_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    node: str | None

    @property
    def began(self) -> datetime | None:
        """When the run began; one that was short by the time of its assignment."""
        return run_began(self.state, self.started_at, self.assigned_at)


@frozen
class StoredAttempt:
    """One of its failed runs; ``node`` as for a `StoredJob`."""

    began: datetime | None
    ended: datetime
    node: str | None
    error: str | None
    error_class: str | None


def run_began(
    state: State, started_at: datetime | None, assigned_at: datetime | None
) -> datetime | None:
    """Return when the run of a job began that goes on or was the last; None if none is known.

    Short runs are not reported as started, so an ended job tells by its assignment.
    """
    return started_at or (assigned_at if state.is_final else None)


def job_query(schema: str) -> str:
    """Return the statement for the fields of a `StoredJob`, with the job's number as ``%s``."""
    schema = checked_name(schema)
    return (
        "select job_id, work_type, job.state::text, attempt, payload::text, result::text, error,"
        " enqueued_at, assigned_at, job.started_at, finished_at, coalesce(node.name, node_id::text)"
        f" from {schema}.job left join {schema}.node_info as node using (node_id)"
        " where job_id = %s"
    )


def attempts_query(schema: str) -> str:
    """Return the statement for the fields of each `StoredAttempt` of a job, the oldest first."""
    schema = checked_name(schema)
    return (
        "select began, at, coalesce(node.name, node_id::text), error, error_class"
        f" from {schema}.failed_attempt left join {schema}.node_info as node using (node_id)"
        " where job_id = %s and restarted_by is null order by at, attempt"
    )


def has_schema_query(schema: str) -> str:
    """Return the statement that tells whether the schema is there."""
    return f"select to_regclass('{checked_name(schema)}.migration') is not null"


def version_query(schema: str) -> str:
    """Return the statement for the fields of a `SchemaVersion`."""
    return FIND.format(schema=checked_name(schema))


def identity_query(schema: str) -> str:
    """Return the statement whose first column is the identity of the queue."""
    return IDENTITY.format(schema=checked_name(schema))


def unserved_query(schema: str) -> str:
    """Return the statement for those of the queues ``%s`` that no living node serves."""
    return (
        "select its.queue from unnest(%s::text[]) as its (queue) where not exists ("
        f"select from {checked_name(schema)}.node_info where state = 'alive'"
        " and its.queue = any(queues) and heartbeat_at + lease > now())"
        " order by 1"
    )
