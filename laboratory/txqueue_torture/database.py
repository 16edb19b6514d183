"""The database access of a scenario itself, which no fault-injecting proxy affects."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

from txqueue.errors import DatabaseUnavailable
from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import migrate

__all__ = ["Database"]

T = TypeVar("T")

PATIENCE = 30.0
ASK_EVERY = 0.2

_preparing = Lock()

_LIVE = "select count(*) from {schema}.job where state in ('waiting', 'ready', 'assigned')"
_EFFECTS = "create table if not exists {schema}.torture_effect (job_id bigint, intent text)"
_HELD = """select job.job_id, job.assignment from {schema}.job_assigned as job
    join {schema}.node_info as node on node.incarnation = job.incarnation
    where node.name = any (%s)"""
_FINAL = """select job_id, payload ->> 'intent' as intent, state::text as state, attempt, deaths,
    error, incarnation, assignment, extract(epoch from finished_at)::float8 as finished_at
    from {schema}.job where not starts_with(work_type, 'txqueue_torture.unnoted')"""
_COUNTS = "select job_id, count(*) from {schema}.torture_effect group by job_id"


class Database:
    """Runs statements; if the connection is lost, repeats the statement over a new one.

    Args:
        dsn: A libpq URI or keyword string.
        schema: The name of txqueue's schema.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema
        self._session: Session | None = None

    def prepare(self) -> None:
        """Create the schema, and the table in which handlers write a row."""
        # Roles belong to the server: concurrent migrations of two databases may both create them.
        with _preparing:
            migrate(self.dsn, self.schema)
        self.rows(_EFFECTS.format(schema=self.schema))

    def session(self) -> Session:
        """Open a separate connection."""
        return Session(self.dsn, self.schema, "txqueue torture")

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows; it may be run twice.

        Raises:
            DatabaseUnavailable: When the database does not answer for long.
        """
        return self._ask(lambda session: session.rows(sql, parameters))

    def dicts(self, sql: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Run a statement and return its rows as dictionaries by column name."""
        return self._ask(lambda session: session.dicts(sql, parameters))

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """Run a statement and return the first column of its first row."""
        return self.rows(sql, parameters)[0][0]

    def live_jobs(self) -> int:
        """Return how many jobs wait, are ready or run."""
        return int(self.value(_LIVE.format(schema=self.schema)))

    def held_by(self, nodes: Sequence[str]) -> set[tuple[int, int]]:
        """Return ``(job_id, assignment)`` of all jobs that are assigned to the named nodes."""
        rows = self.rows(_HELD.format(schema=self.schema), (list(nodes),))
        return {(job_id, assignment) for job_id, assignment in rows}

    def final_jobs(self) -> list[dict[str, Any]]:
        """Return all jobs in their current state."""
        return self.dicts(_FINAL.format(schema=self.schema))

    def effects(self) -> dict[int, int]:
        """Return how many rows each job has written in its handler's transaction."""
        return dict(self.rows(_COUNTS.format(schema=self.schema)))

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _ask(self, question: Callable[[Session], T]) -> T:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if self._session is None:
                    self._session = self.session()
                return question(self._session)
            except DatabaseUnavailable:
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(ASK_EVERY)
