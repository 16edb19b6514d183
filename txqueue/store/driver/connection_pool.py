"""A connection pool that replaces broken connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import uniform
from typing import Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred, DeferredSemaphore, TimeoutError
from twisted.python.failure import Failure

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.connection import Connection, Statement
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.driver.reconnecting import ReconnectBackoff, SlowHosts
from txqueue.store.driver.session_bounds import LONGEST_LIFE
from txqueue.store.driver.shared_errors import none_free


class Semaphore(DeferredSemaphore):
    """Gives callers their turn one after the other, and never one inside of another.

    A caller may end its turn without having waited for the database. If the next one began within
    that, the stack would be full after some dozens, and the others would never get theirs.
    """

    _ended = 0
    _is_ending = False

    def take_at_once(self) -> bool:
        """Take a turn if no caller waits for one; return whether it is taken."""
        if self.tokens:
            self.tokens -= 1
            return True
        return False

    def release(self) -> None:
        """End a turn; if another one is just being ended, after that."""
        self._ended += 1
        if self._is_ending:
            return
        self._is_ending = True
        try:
            while self._ended:
                self._ended -= 1
                super().release()
        finally:
            self._is_ending = False


T = TypeVar("T")


@define(eq=False, repr=False, slots=False)
class ConnectionPool:
    """At most ``size`` connections, opened when first needed.

    Args:
        reactor: Watches the sockets.
        dsn: A libpq URI or keyword string.
        size: How many connections there may be at a time.
        application_name: Shown in ``pg_stat_activity``.
        patience: Seconds after which a statement without an answer counts as lost; None: never.
        backoff: The backoff after a failed attempt to connect, shared by pools that retry by
            themselves.
        any_moment: Whether a moment beyond Python's range is read as the nearest one within it,
            for tools that display data.
        session: Server settings for each session.
        wait: Seconds that a caller waits for a connection while all are in use; None for no limit.
    """

    _reactor: IStoreReactor
    _dsn: str
    _size: int
    _application_name: str
    _patience: float | None = None
    _backoff: ReconnectBackoff | None = None
    _any_moment: bool = False
    _session: Mapping[str, str] | None = None
    _wait: float | None = None

    def __attrs_post_init__(self) -> None:
        self._slow_hosts = SlowHosts() if self._backoff is None else self._backoff.slow_hosts
        self._turns = Semaphore(self._size)
        self._idle: list[Connection] = []
        # Jitter, as all pools of a fleet may have started together.
        self._longest_life = LONGEST_LIFE * uniform(0.8, 1.0)
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether all connections are lent, so that a caller would wait for one."""
        return self._turns.tokens == 0

    def transaction(
        self, last: Callable[[], Statement] | None = None
    ) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection inside a transaction: committed at the end, rolled back on an error.

        The transaction begins with its first statement, in the same message.

        Args:
            last: Returns a frequent statement, which runs last and in the same message as the
                commit.

        Raises:
            Refused: At its end, when a statement in it had failed and its error was swallowed.
        """
        return _InTransaction(self, last)

    async def lend(self, borrower: Callable[[Connection], Awaitable[T]]) -> T:
        """Lend a connection to a function and return its result."""
        # The same as `connection`, but faster, as every enqueue uses this.
        connection = await self.take()
        try:
            return await borrower(connection)
        finally:
            self.put_back(connection)

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own and return its rows."""
        return await self.lend(lambda connection: connection.query(sql, parameters))

    async def query_often(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run one frequent statement in a transaction of its own and return its rows."""
        return await self.lend(lambda connection: connection.query_often(sql, parameters))

    async def query_dicts(
        self, sql: str, parameters: Sequence[object] = (), before: str = ""
    ) -> list[dict[str, Any]]:
        """Run one statement in a transaction of its own; see `Connection.query_dicts`."""
        return await self.lend(lambda connection: connection.query_dicts(sql, parameters, before))

    def trim(self, most: int) -> None:
        """Close idle connections beyond a number."""
        while len(self._idle) > most:
            self._idle.pop(0).close()

    def close(self) -> None:
        """Close idle connections now, and lent ones when they are returned."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    async def take(self) -> Connection:
        """Take a connection, which the caller must put back; see `connection`."""
        if not self._turns.take_at_once():
            await self._acquired()
        try:
            return self._working() or await self._opened()
        except BaseException:
            self._turns.release()
            raise

    def _acquired(self) -> Deferred[Any]:
        acquiring = self._turns.acquire()
        if self._wait is None or acquiring.called:
            return acquiring
        acquiring.addTimeout(self._wait, self._reactor)
        return acquiring.addErrback(self._none_free)

    def _none_free(self, failure: Failure) -> None:
        failure.trap(TimeoutError)
        raise none_free(self._wait or 0, self._size) from None

    def _working(self) -> Connection | None:
        if self._is_closed:
            raise DatabaseUnavailable("the connection pool is closed", "use it before close()")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_dead and connection.age < self._longest_life:
                return connection
            connection.close()
        return None

    def _opened(self) -> Awaitable[Connection]:
        new = Connection(
            self._reactor,
            self._application_name,
            self._patience,
            any_moment=self._any_moment,
            session=self._session,
        )
        return new.open(self._dsn, self._backoff, self._slow_hosts)

    def put_back(self, connection: Connection) -> None:
        """Put back a connection that was taken."""
        if connection.was_silent:
            # The idle ones lead to the same server: each would cost its caller the same wait.
            self.trim(0)
        # A caller may have left a statement or transaction open; do not reuse such a connection.
        is_good = connection.is_reusable and not connection.is_dead and connection.is_idle
        if self._is_closed or not is_good:
            connection.close()
        else:
            self._idle.append(connection)
        self._turns.release()


class _InTransaction(AbstractAsyncContextManager[Connection]):
    """The same, inside a transaction; not by a `_Lent`, which would be one more wait for each."""

    __slots__ = ("_connection", "_last", "_pool")

    def __init__(self, pool: ConnectionPool, last: Callable[[], Statement] | None) -> None:
        self._pool = pool
        self._last = last

    async def __aenter__(self) -> Connection:
        self._connection = await self._pool.take()
        self._connection.begin()
        return self._connection

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                await self._connection.commit(None if self._last is None else self._last())
            else:
                await self._connection.roll_back()
        except BaseException:
            await self._connection.roll_back()
            raise
        finally:
            self._pool.put_back(self._connection)
