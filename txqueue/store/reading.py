"""One blocking connection, and what the command line asks the database with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Self

import psycopg2

from txqueue.errors import JobNotFound, Refused
from txqueue.job import read_json
from txqueue.store.failures import translated
from txqueue.store.schema import checked_name
from txqueue.store.version import check

__all__ = ["Reader", "Session"]

CONNECT_TIMEOUT = 10
# A question about a job may have to read all of history; nobody waits for longer than this.
PATIENCE_MS = 30_000

_LISTED = """
    job.job_id, job.state::text as state, job.waiting_for, job.work_type, job.queue, job.priority,
    job.weight, job."group", job.attempt, job.deaths, job.node_id, node.name as node,
    job.not_before, job.not_after, job.rank, job.enqueued_at, job.assigned_at, job.started_at,
    job.finished_at
"""
_FILTERS = {
    "state": "job.state = %s::{schema}.job_state",
    "queue": "job.queue = %s",
    "work_type": "job.work_type = %s",
    "group": 'job."group" = %s',
    "after": "job.job_id < %s",
}


class Session:
    """A blocking connection in autocommit, for processes that have nothing else to do meanwhile.

    Args:
        dsn: A libpq URI or keyword string.
        schema: The name of txqueue's schema.
        application_name: Shown in ``pg_stat_activity``.

    Raises:
        DatabaseUnavailable: When the server does not answer.
    """

    def __init__(
        self, dsn: str, schema: str = "txqueue", application_name: str = "txqueue"
    ) -> None:
        self.schema = checked_name(schema)
        with _errors():
            self._connection = psycopg2.connect(
                dsn, application_name=application_name, connect_timeout=CONNECT_TIMEOUT
            )
        self._connection.autocommit = True

    def __enter__(self) -> Self:
        """The session itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self._connection.close()

    def ensure_version(self) -> None:
        """Make sure that the schema is the one this code needs.

        Raises:
            SchemaMismatch: When it is missing, older or newer.
        """
        table = f"{self.schema}.migration"
        version = None
        if self.value("select to_regclass(%s) is not null", (table,)):
            version = self.value(f"select coalesce(max(number), 0) from {table}")
        check(version, self.schema)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, none if it has none.

        Raises:
            DatabaseUnavailable: When the connection is lost.
            Refused: When the database refuses the statement.
        """
        return self._run(sql, parameters)[1]

    def dicts(self, sql: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Run a statement and return its rows as dictionaries by column name."""
        names, rows = self._run(sql, parameters)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """Run a statement and return the first column of its first row."""
        return self.rows(sql, parameters)[0][0]

    @contextmanager
    def transaction(self, manner: str = "") -> Iterator[None]:
        """Open a transaction: committed at the end, rolled back on an error.

        Args:
            manner: What stands after ``begin``, such as an isolation level.
        """
        self.rows(f"begin {manner}")
        try:
            yield
        except BaseException:
            if not self._connection.closed:
                self._connection.rollback()
            raise
        self.rows("commit")

    def enqueue_text(self, text: str) -> list[int]:
        """Enqueue a JSON array of jobs; returns their numbers.

        Raises:
            Refused: When the database refuses one of them; none is written.
        """
        return list(self.value(f"select {self.schema}.enqueue_many(%s)", (text,)))

    def live_jobs(self) -> int:
        """Return how many jobs wait, are ready or run."""
        states = ("waiting", "ready", "assigned")
        table = f"{self.schema}.job"
        return int(self.value(f"select count(*) from {table} where state in {states}"))

    def _run(
        self, sql: str, parameters: Sequence[object]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        with _errors(), self._connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            if cursor.description is None:
                return [], []
            return [column.name for column in cursor.description], cursor.fetchall()


class Reader:
    """What can be asked of the queue without changing it.

    Args:
        session: The connection; its statements are bounded in time from now on.

    Raises:
        SchemaMismatch: When the schema is not the one this code needs.
    """

    def __init__(self, session: Session) -> None:
        session.ensure_version()
        session.rows(f"set statement_timeout = {PATIENCE_MS}")
        session.rows("set default_transaction_read_only = on")
        self._session = session
        self._schema = session.schema

    def now(self) -> datetime:
        """Return the database's clock, by which all ages are counted."""
        moment: datetime = self._session.value("select clock_timestamp()")
        return moment

    def live_jobs(self) -> list[dict[str, Any]]:
        """Return counts by queue, work_type, state and waiting_for, with the oldest not_before."""
        return self._view("live_jobs", "queue, work_type, state, waiting_for")

    def recent_done(self) -> list[dict[str, Any]]:
        """Return how many jobs each queue completed of late, and since when."""
        return self._view("recent_done", "queue")

    def history(self) -> dict[str, int]:
        """Return about how many jobs are done and cancelled."""
        return {row["state"]: row["jobs"] for row in self._view("history_size", "state")}

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes as they are now."""
        return self._view("node_status", "name")

    def old_snapshots(self) -> list[dict[str, Any]]:
        """Return what keeps vacuum from its work."""
        return self._view("old_snapshots", "since nulls last, name")

    def jobs(self, filters: Mapping[str, object], limit: int) -> list[dict[str, Any]]:
        """Return jobs, the newest first, without their payloads.

        Args:
            filters: ``state, queue, work_type, group``, and ``after``, the number after which to
                go on; what is None does not count.
            limit: At most so many.
        """
        chosen = {key: value for key, value in filters.items() if value is not None}
        conditions = [_FILTERS[key].format(schema=self._schema) for key in chosen]
        where = "where " + " and ".join(conditions) if conditions else ""
        return self._session.dicts(
            f"select {_LISTED} from {self._schema}.job as job"
            f" left join {self._schema}.node_info as node on node.node_id = job.node_id"
            f" {where} order by job.job_id desc limit %s",
            (*chosen.values(), limit),
        )

    def job(self, job_id: int) -> dict[str, Any]:
        """Return all there is of a job, with its node's name and its type's policy.

        Raises:
            JobNotFound: When there is none of that number.
        """
        rows = self._session.dicts(
            f"select {_LISTED}, job.options::text as options, job.payload::text as payload,"
            " job.result::text as result, job.error, kind.policy"
            f" from {self._schema}.job as job"
            f" left join {self._schema}.node_info as node on node.node_id = job.node_id"
            f" left join {self._schema}.work_type as kind on kind.work_type = job.work_type"
            " where job.job_id = %s",
            (job_id,),
        )
        if not rows:
            raise JobNotFound(
                f"there is no job {job_id}", "check the number; old history is dropped"
            )
        read = {name: read_json(rows[0][name]) for name in ("options", "payload", "result")}
        return {**rows[0], **read}

    def _view(self, name: str, order: str) -> list[dict[str, Any]]:
        return self._session.dicts(f"select * from {self._schema}.{name} order by {order}")


@contextmanager
def _errors() -> Iterator[None]:
    """Raise txqueue's errors; where it has none, say what the server said."""
    try:
        with translated():
            yield
    except psycopg2.errors.QueryCanceled:
        raise Refused(
            f"the database did not answer within {PATIENCE_MS // 1000} s",
            "ask for less, for instance one --state",
        ) from None
    except psycopg2.errors.InsufficientPrivilege as error:
        raise Refused(
            str(error.diag.message_primary), "connect as a member of a role of txqueue"
        ) from None
    except psycopg2.Error as error:
        said = error.diag.message_primary or " ".join(str(error).split())
        raise Refused(f"the database refuses: {said}", error.diag.message_hint or "") from None
