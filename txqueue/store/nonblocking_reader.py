"""Asks the database without blocking, one inquiry at a time, each bounded in time."""

from __future__ import annotations

from typing import TypeVar

from twisted.internet.defer import DeferredLock

from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.errors import answered
from txqueue.store.queries import Inquiry

__all__ = ["Asking"]

T = TypeVar("T")

# Shorter than the patience of a node's pool, which would drop the connection.
PATIENCE = 8
# A page is read in the order of an index, as far as it goes; a planner without statistics of a
# table just filled would rather sort all there is.
_BOUNDED = (
    f"set local statement_timeout = {PATIENCE * 1000}; set local enable_sort = off;"
    " set transaction read only; "
)


class Asking:
    """Asks on behalf of operators: whatever they ask, it takes one connection of the node's few.

    Args:
        pool: Where to ask.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._turn = DeferredLock()

    async def find(self, inquiry: Inquiry[T]) -> T:
        """Return what an inquiry finds out.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            Refused: When it takes too long.
        """
        await self._turn.acquire()
        try:
            with answered(PATIENCE):
                return await self._found(inquiry)
        finally:
            self._turn.release()

    async def _found(self, inquiry: Inquiry[T]) -> T:
        rows = None
        while True:
            try:
                question = inquiry.send(rows) if rows is not None else next(inquiry)
            except StopIteration as found:
                answer: T = found.value
                return answer
            sql = _BOUNDED + question.sql
            rows = await self._pool.query_dicts(sql, question.parameters)
