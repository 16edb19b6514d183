"""What a test asks the database, apart from the queue that it tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import psycopg2.extras
from attrs import field, frozen

from tests.cluster.diary import TABLES


@frozen
class Database:
    """One database, with a connection of the test's own that commits each statement."""

    dsn: str
    _connection: Any = field(repr=False)

    @classmethod
    @contextmanager
    def opened(cls, dsn: str) -> "Iterator[Database]":
        """Connect, and make the application's tables."""
        connection = psycopg2.connect(dsn, application_name="test")
        connection.autocommit = True
        try:
            database = cls(dsn, connection)
            database.execute(TABLES)
            yield database
        finally:
            connection.close()

    def execute(self, statement: str, *parameters: object) -> None:
        """Run a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)

    def rows(self, statement: str, *parameters: object) -> list[dict[str, Any]]:
        """Return the rows of a statement."""
        factory = psycopg2.extras.RealDictCursor
        with self._connection.cursor(cursor_factory=factory) as cursor:
            cursor.execute(statement, parameters or None)
            return [dict(row) for row in cursor.fetchall()]

    def row(self, statement: str, *parameters: object) -> dict[str, Any]:
        """Return the first row, an empty one if there is none."""
        return next(iter(self.rows(statement, *parameters)), {})

    def value(self, statement: str, *parameters: object) -> Any:
        """Return the first value of the first row."""
        return next(iter(self.row(statement, *parameters).values()), None)

    def job(self, job_id: int) -> dict[str, Any]:
        """Return a job's row."""
        return self.row("select * from txqueue.job where job_id = %s", job_id)

    def states(self) -> dict[str, int]:
        """Return how many jobs there are in each state."""
        found = self.rows("select state::text, count(*)::int as jobs from txqueue.job group by 1")
        return {row["state"]: row["jobs"] for row in found}

    def runs(self, what: str = "start") -> dict[int, int]:
        """Return how often something was noted, by job."""
        found = self.rows(
            "select job_id, count(*)::int as n from run where what = %s group by 1", what
        )
        return {row["job_id"]: row["n"] for row in found}

    def enqueue(self, work_type: str, payload: str, **options: Any) -> int:
        """Enqueue as any SQL client does."""
        names = "".join(f', "{name}" => %s' for name in options)
        statement = f"select txqueue.enqueue(%s, %s::jsonb{names})"
        return int(self.value(statement, work_type, payload, *options.values()))
