"""A blocking database connection for the command line and other processes without a reactor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from txqueue.errors import Refused, SchemaMismatch
from txqueue.store.driver.blocking_connection import connect, interruptible
from txqueue.store.driver.errors import answered, read_any_moment
from txqueue.store.driver.session_bounds import OF_A_TOOL, SET, TO_READ, as_arrays
from txqueue.store.driver.side_by_side import nested
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, answer, ensure_version
from txqueue.store.schema.files import FIND, SchemaVersion, check_version, checked_name

T = TypeVar("T")

# The time limit of a query, as a query about a job may read all of history; and of a wait for a
# lock, as the error then says so.
PATIENCE_MS, LOCK_PATIENCE_MS = 30_000, 5_000
# Set for each query alone, because a pooler may lend the session to others.
_LOCK_BOUND = f"set local lock_timeout = {LOCK_PATIENCE_MS}; "
_BOUND = f"set local statement_timeout = {PATIENCE_MS}; {_LOCK_BOUND}"
_TO_READ = _BOUND + TO_READ
# One row with the version alone if the question has none.
_WITH_VERSION = """
    select version.*, answer.* from ({find}) as version
      left join (select true, its.* from ({question}) as its) as answer on true"""


class Session:
    """A blocking connection in autocommit mode, for processes without a reactor.

    Args:
        dsn: A libpq URI or keyword string.
        schema: The name of txqueue's schema.
        application_name: Shown in ``pg_stat_activity``.
        patience: The time limit of a statement in seconds, as an error reports it; the caller sets
            it on the server.

    Raises:
        DatabaseUnavailable: When the server does not answer.
    """

    def __init__(
        self,
        dsn: str,
        schema: str = "txqueue",
        application_name: str = "txqueue",
        patience: float = PATIENCE_MS / 1000,
    ) -> None:
        self.schema = checked_name(schema)
        self._patience = patience
        with answered(patience):
            self._connection = interruptible(
                lambda: connect(dsn, application_name), cancel=lambda: None
            )
        read_any_moment(self._connection)
        self._is_set = self._is_checked = False

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self._connection.close()

    def ensure_version(self) -> None:
        """Check that this code can work with the schema.

        Raises:
            SchemaMismatch: When the schema is missing, older, or too new.
        """
        answer(ensure_version(self.schema), self._begun_with)

    def find(self, inquiry: Inquiry[T]) -> T:
        """Run the statements that an inquiry yields, one by one, and return its result.

        Each is read-only and has a time limit.

        Raises:
            SchemaMismatch: When the schema is not the one this code needs.
        """
        return answer(inquiry, self._asked)

    def _asked(self, question: Question) -> Rows:
        if self._is_checked:
            return self.dicts(_TO_READ + question.sql, question.parameters)
        rows = self._first_rows(question)
        self._is_checked = True
        return rows

    def _first_rows(self, question: Question) -> Rows:
        """Return the rows of the first question, asked together with the version of the schema."""
        if question.sql.startswith("set "):
            self.ensure_version()
            return self.dicts(_TO_READ + question.sql, question.parameters)
        sql = _WITH_VERSION.format(find=FIND.format(schema=self.schema), question=question.sql)
        try:
            names, rows = self._begun(sql, question.parameters)
        except (Refused, SchemaMismatch):
            # In another schema than this code needs, the question may miss anything.
            self.ensure_version()
            raise
        check_version(SchemaVersion(*rows[0][:2]), self.schema)
        return [nested(names[3:], row[3:]) for row in rows if row[2]]

    def _begun_with(self, question: Question) -> Rows:
        names, rows = self._begun(question.sql, question.parameters)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _begun(
        self, sql: str, parameters: Sequence[object]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Set the session and ask the first question in the same message."""
        found = self._sent(f"{SET}; {_TO_READ}{sql}", (*self._settings, *parameters))
        self._is_set = True
        return found

    @property
    def _settings(self) -> tuple[object, ...]:
        return (*as_arrays(OF_A_TOOL), self._connection.get_backend_pid())

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows; an empty list if it has none.

        Raises:
            DatabaseUnavailable: When the connection is lost.
            Refused: When the database refuses the statement.
        """
        return self._run(sql, parameters)[1]

    def dicts(self, sql: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Run a statement and return its rows as dictionaries by column name."""
        names, rows = self._run(sql, parameters)
        return [nested(names, row) for row in rows]

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """Run a statement and return the first column of its first row."""
        return self.rows(sql, parameters)[0][0]

    @contextmanager
    def transaction(self, manner: str = "") -> Iterator[None]:
        """Open a transaction, committed at the end of the block, rolled back on an error.

        Args:
            manner: SQL to add after ``begin``, such as an isolation level.
        """
        self.rows(f"begin {manner}")
        try:
            yield
        except BaseException:
            if not self._connection.closed:
                # The driver's own rollback() does nothing in autocommit mode.
                self.rows("rollback")
            raise
        self.rows("commit")

    def enqueue_text(self, text: str) -> list[int]:
        """Enqueue a JSON array of jobs; return their numbers.

        Raises:
            Refused: When the database refuses one of the jobs; none is written.
        """
        sql = f"{_LOCK_BOUND}select {self.schema}.enqueue_many(%s)"
        return list(self.value(sql, (text,)))

    def live_jobs(self) -> int:
        """Return the number of jobs that have not ended."""
        states = ("waiting", "ready", "assigned")
        table = f"{self.schema}.job"
        return int(self.value(f"select count(*) from {table} where state in {states}"))

    def _run(
        self, sql: str, parameters: Sequence[object]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        if not self._is_set:
            self._sent(SET, self._settings)
            self._is_set = True
        return self._sent(sql, parameters)

    def _sent(
        self, sql: str, parameters: Sequence[object]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        with answered(self._patience), self._connection.cursor() as cursor:
            interruptible(lambda: cursor.execute(sql, parameters or None), self._connection.cancel)
            if cursor.description is None:
                return [], []
            return [column.name for column in cursor.description], cursor.fetchall()
