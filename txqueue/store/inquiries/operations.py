"""Runs operators' queries and acts on a node: over a pool of connections, with time limits, few at
a time; and reads archived jobs beside the reactor.

A node has few connections: queries use one of them, acts another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from attrs import frozen
from twisted.internet.threads import deferToThreadPool

from txqueue.errors import DatabaseUnavailable, Refused
from txqueue.model.operator_acts import ACTS, ValueKind
from txqueue.store.driver.connection_pool import ConnectionPool, Semaphore
from txqueue.store.driver.errors import answered
from txqueue.store.driver.session_bounds import TO_READ
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, aanswer
from txqueue.store.inquiries.jobs import read_archived

T = TypeVar("T")


async def find(pool: ConnectionPool, inquiry: Inquiry[T]) -> T:
    """Run an inquiry, each statement in a transaction of its own, and return its result."""
    return await aanswer(
        inquiry, lambda question: pool.query_dicts(question.sql, question.parameters)
    )


# Shorter than the time limit of the node's pool, which would drop the connection.
PATIENCE = 8
# Where PostgreSQL cannot tell the type from the value.
_CASTS = {
    ValueKind.MOMENT: "::timestamptz",
    ValueKind.JSON: "::jsonb",
    ValueKind.NAMES: "::text[]",
    ValueKind.IDS: "::bigint[]",
}


# Null if there is nothing to undo.
_NUMBER = "nullif(current_setting('queue_rows.act', true), '')::bigint"


class Queries(Protocol):
    """Runs statements: a `ConnectionPool`, or a connection that blocks."""

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""

    async def query_dicts(
        self, sql: str, parameters: Sequence[object] = (), before: str = ""
    ) -> list[dict[str, Any]]:
        """Run one statement and return its rows as dictionaries; see `Connection.query_dicts`."""


class Operations:
    """Runs queries and acts on behalf of operators.

    Args:
        pool: Runs the statements.
        schema: The name of the schema.
        patience: Seconds after which a query or an act is given up.
        at_once: How many queries run at a time.

    Attributes:
        outage: Why the database did not answer the last call; None if it did.
    """

    def __init__(
        self, pool: Queries, schema: str, *, patience: float = PATIENCE, at_once: int = 1
    ) -> None:
        self._pool = pool
        self._schema = schema
        self._patience = patience
        # The error says what a statement waited for, so that wait is the shorter one.
        self._bound = (
            f"set local statement_timeout = {int(patience * 1000)};"
            f" set local lock_timeout = {int(patience * 500)}; "
        )
        self._questions, self._acts = Semaphore(at_once), Semaphore(1)
        self.outage: str | None = None

    async def find(self, inquiry: Inquiry[T]) -> T:
        """Run an inquiry and return its result.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When the query takes too long.
        """
        async with self._questions:
            with self._noting(), answered(self._patience):
                return await aanswer(inquiry, self._rows)

    def _rows(self, question: Question) -> Awaitable[Rows]:
        before = self._bound + TO_READ
        if question.is_frequent:
            return self._pool.query_dicts(question.sql, question.parameters, before)
        return self._pool.query_dicts(before + question.sql, question.parameters)

    async def act(
        self, name: str, arguments: Mapping[str, object], identity: str | None = None
    ) -> Sequence[Any]:
        """Call the stored function of an act and return its row; see `numbered_act`."""
        return (await self.numbered_act(name, arguments, identity))[0]

    async def numbered_act(
        self, name: str, arguments: Mapping[str, object], identity: str | None = None
    ) -> tuple[Sequence[Any], int | None]:
        """Call the stored function of an act; return its row, and its number if it can be undone.

        Args:
            name: One of `ACTS`.
            arguments: The act's arguments by name, with ``who``; null is passed for missing ones.
            identity: The identity of the queue that is meant; None for whichever is connected.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When the database refuses the act, has another queue, or takes too long.
        """
        _check_range(name, arguments)
        values = [*(arguments.get(value.name) for value in ACTS[name].takes), arguments["who"]]
        call = f"{self._bound}select its.*, {_NUMBER} from {_call(self._schema, name)} as its"
        if identity is not None:
            # PostgreSQL evaluates a condition without columns first, and then may not call at all.
            call += f" where {self._schema}.identity()::text = %s"
            values.append(identity)
        async with self._acts:
            with self._noting(), answered(self._patience):
                rows = await self._pool.query(call, values)
        if not rows:
            raise Refused(
                "the act is meant for another database than the one that has its name now",
                "reload the page, and act again",
            )
        *row, number = rows[0]
        return tuple(row), number

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note whether the database answers."""
        outage = None
        try:
            yield
        except DatabaseUnavailable as error:
            outage = error.what
            raise
        finally:
            self.outage = outage


def _check_range(name: str, arguments: Mapping[str, object]) -> None:
    """Check the whole numbers of an act: for a larger one PostgreSQL would find no function."""
    for value in ACTS[name].takes:
        number = arguments.get(value.name)
        if isinstance(number, int) and not -value.most <= number <= value.most:
            raise Refused(f"{value.name} {number} is above {value.most}", "pass a smaller number")


@lru_cache
def _call(schema: str, name: str) -> str:
    arguments = [
        f"{value.parameter or value.name} => %s{_CASTS.get(value.kind, '')}"
        for value in ACTS[name].takes
    ]
    return f"{schema}.{name}({', '.join([*arguments, 'who => %s'])})"


@frozen
class ArchiveProcess:
    """Waits in a thread for the process that answers a question.

    Args:
        reactor: Has the threads.
    """

    _reactor: Any

    async def job(self, days: Sequence[Mapping[str, Any]], job_id: int) -> dict[str, Any] | None:
        """Return all columns of an archived job; see `read_archived`."""
        if not days:
            return None
        pool = self._reactor.getThreadPool()
        return await deferToThreadPool(self._reactor, pool, read_archived, days, job_id)
