"""Schedules in the database: the calls that declare, change, read and tick them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, fields, frozen

from txqueue.errors import InvalidWork
from txqueue.model.schedule import Exists, Schedule, schedule_object
from txqueue.model.work_item import WorkItem
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import RefusedStatements, answered
from txqueue.store.enqueueing.calls import job_object, json_text
from txqueue.store.schema.files import checked_name

CONDITION_PATIENCE = 1
"""Seconds in which a condition must be evaluated, waiting for locks included."""
MOST_CHECKS = 16
"""How many conditions are checked at a time, by all nodes that serve the same queues and types:
each check has a connection of its own.
"""
CONDITION_REMEDY = "see which session locks its table in pg_locks, and that the column has an index"

# The schedule sets these options of its jobs.
_NOT_OF_A_SCHEDULE = ("not_before", "not_after")


@frozen
class Due:
    """The schedules that are due.

    Attributes:
        rows: The due schedules, a dictionary each.
        due_in: Seconds until the next schedule is due; None if there is none.
        seen_at: The time by the database's clock.
    """

    rows: list[dict[str, Any]]
    due_in: float | None
    seen_at: datetime


@frozen
class Judged:
    """Due schedules whose conditions were checked.

    Attributes:
        rows: The schedules, each with whether its condition holds.
        due: The schedules that were found with these.
    """

    rows: list[dict[str, Any]]
    due: Due


@frozen
class ScheduleRun:
    """One run of a schedule, from its job's row.

    Attributes:
        name: The schedule's name.
        due: When the run was due.
        job_id: The number of the run's job.
        outcome: The job's state; None once history has dropped it.
        started_at: When the job started; None before.
        finished_at: When the job ended; None before.
        late: Seconds from due to the start.
        took: Seconds that the job ran, or has been running.
        attempt: How many of the job's attempts have ended.
        error: The first line of the job's last error.
    """

    name: str
    due: datetime
    job_id: int
    outcome: str | None
    started_at: datetime | None
    finished_at: datetime | None
    late: float | None
    took: float | None
    attempt: int | None
    error: str | None


class Schedules:
    """Recurring work: reads and changes schedules by name.

    Args:
        pool: The connections on which the calls run.
        schema: The name of the schema.
        refused: Notes which of a node's calls the database refuses; None for other processes.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        schema: str = "txqueue",
        *,
        refused: RefusedStatements | None = None,
    ) -> None:
        self._pool = pool
        self._schema = checked_name(schema)
        self._refused = RefusedStatements() if refused is None else refused

    async def _query(self, sql: str, arguments: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._refused.noted(sql):
            return await self._pool.query(sql, arguments)

    async def _call(self, call: str, *arguments: object) -> Any:
        rows = await self._query(f"select {self._schema}.{call}", arguments)
        return rows[0][0]

    async def due(self, since: datetime | None = None, busy: Sequence[tuple[str, str]] = ()) -> Due:
        """Return the due schedules.

        Args:
            since: Return only those due at that time or later; None for all.
            busy: Conditions, each a table and a column; schedules that have one of these are left
                out.
        """
        sql = (
            "select due::text, due_in, seen_at"
            f" from {self._schema}.due_schedules(%s, busy => %s::text[])"
        )
        rows = await self._query(sql, (since, [" ".join(condition) for condition in busy]))
        text, due_in, seen_at = rows[0]
        return Due(json.loads(text), due_in, seen_at)

    async def met(self, table: str, column: str, values: Sequence[str]) -> set[str]:
        """Return which of the given values occur in a column of an application's table.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When the table cannot be read within `CONDITION_PATIENCE`.
        """
        sql = (
            f"set local statement_timeout = {CONDITION_PATIENCE * 1000};"
            f" select {self._schema}.find_met_conditions(%s, %s, %s::text[])"
        )
        with answered(CONDITION_PATIENCE, CONDITION_REMEDY):
            return set((await self._pool.query(sql, (table, column, list(values))))[0][0])

    def trim(self) -> None:
        """Close all idle connections but one."""
        self._pool.trim(1)

    async def tick(self, ticks: Sequence[Mapping[str, Any]]) -> int:
        """Enqueue the jobs of due schedules unless another node has; return how many."""
        return int(await self._call("tick(%s)", json.dumps(ticks)))

    async def mend(self) -> int:
        """Start the pause of cool-down schedules whose job no longer exists; return how many."""
        return int(await self._call("start_missed_cooldowns()"))

    async def publish(self, work_types: Sequence[str], schedules: Sequence[Any]) -> int:
        """Publish the result of `declared` for a node's work types; return how many changed.

        Raises:
            Refused: When the database refuses one of the schedules.
        """
        call = "publish_schedules(%s::text[], %s)"
        return int(await self._call(call, list(work_types), json.dumps(schedules)))

    async def put(
        self,
        name: str,
        job: Mapping[str, Any],
        when: Schedule,
        only_if: Exists | None = None,
        who: str = "",
    ) -> bool:
        """Create or change a schedule; return whether anything changed.

        Raises:
            Refused: When the database refuses the schedule.
        """
        call = put_call(self._schema, name, json_text(job), when=when, only_if=only_if, who=who)
        return bool((await self._pool.query(*call))[0][0])

    async def pause(self, name: str, who: str = "") -> bool:
        """Pause a schedule until it is resumed; return whether it was not paused before."""
        return bool(await self._act("pause_schedule", name, who))

    async def resume(self, name: str, who: str = "") -> bool:
        """Resume a schedule; return whether it was paused before."""
        return bool(await self._act("resume_schedule", name, who))

    async def remove(self, name: str, who: str = "") -> int | None:
        """Remove a schedule; return the number of its last job, None if it has enqueued none."""
        last = await self._act("remove_schedule", name, who)
        return None if last is None else int(last)

    async def run_now(self, name: str, who: str = "") -> int:
        """Enqueue a schedule's job now; return the job's number."""
        return int(await self._act("run_schedule", name, who))

    async def _act(self, act: str, name: str, who: str) -> Any:
        return (await self._pool.query(*act_call(self._schema, act, name, who)))[0][0]

    async def runs(self, name: str) -> list[ScheduleRun]:
        """Return a schedule's last runs, at most twenty, the latest first."""
        columns = ", ".join(field.name for field in fields(ScheduleRun))
        sql = f"select {columns} from {self._schema}.schedule_runs(array[%s])"
        return [ScheduleRun(*row) for row in await self._pool.query(sql, (name,))]


def put_call(
    schema: str, name: str, job: str, *, when: Schedule, only_if: Exists | None, who: str
) -> tuple[str, tuple[object, ...]]:
    """Return the statement that creates or changes a schedule, and its parameters."""
    condition = None if only_if is None else json.dumps(asdict(only_if))
    parameters = (name, json.dumps(schedule_object(when)), job, condition, who)
    call = (
        f"select {schema}.put_schedule(its_name => %s, terms => %s, its_job => %s,"
        " condition => %s, who => %s)"
    )
    return call, parameters


def act_call(schema: str, act: str, name: str, who: str) -> tuple[str, tuple[object, ...]]:
    """Return the statement for an act on a schedule, such as ``pause_schedule``."""
    return f"select {schema}.{act}(%s, %s)", (name, who)


def job_of(work: WorkItem, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job that a schedule enqueues each time.

    Raises:
        InvalidWork: When the work item or an option is not valid.
    """
    for name in _NOT_OF_A_SCHEDULE:
        if options.get(name) is not None:
            raise InvalidWork(
                f"a schedule takes no {name}", "the schedule itself decides when work is due"
            )
    return job_object(work, options)


def declared(classes: Sequence[type[WorkItem]]) -> list[dict[str, Any]]:
    """Return the schedules that classes declare, named after their work types.

    Raises:
        InvalidWork: When a class cannot be instantiated without arguments.
    """
    return [
        {
            "name": cls.work_type,
            "terms": schedule_object(cls.schedule),
            "job": job_object(_made(cls)),
        }
        for cls in classes
        if cls.schedule is not None
    ]


def _made(cls: type[WorkItem]) -> WorkItem:
    try:
        return cls()
    except TypeError:
        raise InvalidWork(
            f"{cls.__qualname__} has a schedule, and fields without a default",
            "give them defaults, or make schedules with queue.schedule(name, work, when)",
        ) from None
