"""An asynchronous connection that runs one query at a time; its pool replaces a broken one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import psycopg2
from attrs import define
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_INERROR, Notify
from twisted.internet.defer import CancelledError, Deferred

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.errors import demoted, read_any_moment, translated, translation
from txqueue.store.driver.hosts import ConnectAttempt, attempts, redacting, resolved
from txqueue.store.driver.raw_connection import Driver, IStoreReactor, Prepared
from txqueue.store.driver.reconnecting import ReconnectBackoff, SlowHosts
from txqueue.store.driver.session_bounds import ENCODED, SET, as_arrays
from txqueue.store.driver.shared_errors import (
    CHECK_DSN,
    ended_inside,
    naming_source,
    of_all,
    rolled_back,
)
from txqueue.store.driver.side_by_side import nested

# A statement and its parameters.
Statement = tuple[str, Sequence[object]]

# Behind a pooler the process id is not a backend's, or another session's.
CANCEL = """select pg_cancel_backend(pid) from pg_stat_activity
    where pid = %s and application_name = current_setting('application_name')"""
IS_ACTIVE = "select state = 'active' from pg_stat_activity where pid = %s"
CANCEL_PATIENCE = 10.0
SYNTAX_ERROR = "42601"
UNPREPARED = (
    psycopg2.errors.InvalidSqlStatementName,
    psycopg2.errors.FeatureNotSupported,
    psycopg2.errors.DuplicatePreparedStatement,
)


@define(eq=False, repr=False, slots=False)
class Connection:
    """A connection to PostgreSQL, in autocommit unless the caller opens a transaction.

    Args:
        reactor: Watches the socket and times the connection attempt.
        application_name: Shown in ``pg_stat_activity``.
        patience: Seconds after which a statement without an answer, and its connection, count
            as lost; None for no limit.
        any_moment: Whether a moment beyond Python's range is read as the nearest one within it.
        session: Server settings for the session; skipped behind a pooler.

    Attributes:
        is_reusable: Whether the session is as it was opened, so that another caller may use it.
        was_silent: Whether a statement got no answer in time.
    """

    _reactor: IStoreReactor
    _application_name: str
    _patience: float | None = None
    _any_moment: bool = False
    _session: Mapping[str, str] | None = None

    def __attrs_post_init__(self) -> None:
        self._driver = Driver(self._reactor)
        self._is_broken = False
        self._attempt: ConnectAttempt | None = None
        self._opened_at = self._answered_at = 0.0
        self._asked_at: float | None = None
        self._timer: Any = None
        self._prepared = Prepared()
        self._pooled: bool | None = None
        self._is_beginning = False
        self.is_reusable = True
        self.was_silent = False

    @property
    def is_dead(self) -> bool:
        """Whether the connection is broken, so that the next query would fail."""
        driver = self._driver.session
        return self._is_broken or driver is None or bool(driver.closed)

    @property
    def is_idle(self) -> bool:
        """Whether neither a statement nor a transaction is open."""
        session = self._driver.session
        # The status is libpq's. psycopg2 counts a statement as underway until its cursor has the
        # answer, and refuses another one.
        is_free = session.get_transaction_status() == TRANSACTION_STATUS_IDLE
        return bool(is_free and not session.isexecuting())

    @property
    def _has_failed(self) -> bool:
        """Whether a statement of the open transaction has failed, so that it cannot commit."""
        status = self._driver.session.get_transaction_status()
        return bool(status == TRANSACTION_STATUS_INERROR)

    @property
    def waited(self) -> float:
        """The seconds since a statement was sent that has no answer yet; 0 without patience."""
        return 0.0 if self._asked_at is None else float(self._reactor.seconds() - self._asked_at)

    @property
    def quiet(self) -> float:
        """The seconds since the last answer."""
        return float(self._reactor.seconds() - self._answered_at)

    async def executes_for(self, other: Connection) -> bool:
        """Ask the server whether it executes a statement of another connection."""
        rows = await self.query(IS_ACTIVE, (other._driver.session.get_backend_pid(),))
        return bool(rows and rows[0][0])

    @property
    def age(self) -> float:
        """The seconds since the connection was opened."""
        return float(self._reactor.seconds() - self._opened_at)

    async def open(
        self,
        dsn: str,
        backoff: ReconnectBackoff | None = None,
        slow_hosts: SlowHosts | None = None,
    ) -> Connection:
        """Connect to the first of the DSN's hosts that meets its conditions.

        Args:
            dsn: A libpq URI or keyword string.
            backoff: Counts the attempt, and may forbid it for a moment.
            slow_hosts: The hosts to try last.

        Raises:
            DatabaseUnavailable: When no server does, or none answers in time.
        """
        slow_hosts = slow_hosts or SlowHosts()
        if backoff is None:
            return await self._open_any(dsn, slow_hosts)
        with backoff.attempt():
            return await self._open_any(dsn, slow_hosts)

    async def _open_any(self, dsn: str, slow_hosts: SlowHosts) -> Connection:
        async def open_host(host: ConnectAttempt) -> Connection:
            return await _first(await resolved(self._reactor, host), self._open, slow_hosts)

        with naming_source(dsn), redacting(dsn):
            return await _first(attempts(dsn), open_host, slow_hosts)

    async def _open(self, attempt: ConnectAttempt) -> Connection:
        self._attempt = attempt
        self._driver = Driver(self._reactor)
        is_late = False

        def late() -> None:
            nonlocal is_late
            is_late = True
            self.close()

        timer = self._reactor.callLater(attempt.patience, late)
        try:
            with translated():
                await self._connecting(attempt)
                await self._set_session()
        except DatabaseUnavailable:
            self.close()
            if not is_late:
                raise
            host = attempt.parameters.get("host")
            raise DatabaseUnavailable(
                f"the database{f' at {host}' if host else ''} did not answer within"
                f" {attempt.patience:g} s",
                CHECK_DSN,
            ) from None
        finally:
            if timer.active():
                timer.cancel()
        if self._any_moment:
            read_any_moment(self._driver.session)
        self._opened_at = self._answered_at = self._reactor.seconds()
        return self

    def _connecting(self, attempt: ConnectAttempt) -> Deferred[Any]:
        """Connect within a time limit, which the driver itself lacks."""
        named = {"application_name": self._application_name}
        parameters = {**attempt.parameters, **ENCODED, **named}

        def cancel(connecting: Deferred[Any]) -> None:
            connecting.errback(CancelledError())
            self.close()

        connecting = Deferred[Any](cancel)
        Deferred.fromCoroutine(self._driver.connect(**parameters)).addBoth(
            lambda result: None if connecting.called else connecting.callback(result)
        )
        return connecting

    async def _set_session(self) -> None:
        if self._session:
            backend = self._driver.session.get_backend_pid()
            await self._driver.send(SET, (*as_arrays(self._session), backend), self.close)

    async def query(
        self,
        sql: str,
        parameters: Sequence[object] = (),
        translate: Callable[[BaseException], BaseException] = translation,
    ) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows, an empty list if it has none.

        Args:
            sql: The statement.
            parameters: The values for the ``%s`` placeholders.
            translate: Returns the error to raise in place of a driver's error.

        Raises:
            DatabaseUnavailable: When the connection is lost.
            Refused: When the database refuses the input.
        """
        cursor = await self._executed(sql, parameters, translate)
        return [] if cursor.description is None else list(cursor.fetchall())

    async def query_often(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a frequent statement, which gets prepared, with varying parameters.

        Raises:
            DatabaseUnavailable: When the connection is lost.
            Refused: When the database refuses the input.
        """
        return list((await self._executed_often(sql, parameters)).fetchall())

    async def query_alone(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run the only statement of a transaction: it needs no ``begin`` and no ``commit``."""
        is_beginning, self._is_beginning = self._is_beginning, False
        rows = await self.query_often(sql, parameters)
        self._is_beginning = is_beginning
        return rows

    async def _executed_often(
        self, sql: str, parameters: Sequence[object], then: str = "", before: str = ""
    ) -> Any:
        try:
            execution = self._prepared.execution(sql) or await self._prepare(sql)
            return await self._executed(before + execution + then, parameters)
        except UNPREPARED:
            # The prepared statement was discarded, or returns other columns since a migration, or
            # there is an undetected pooler.
            self._prepared, self._pooled = Prepared(), True
            if not self.is_idle:
                raise DatabaseUnavailable(
                    "the server no longer has a statement that this connection had prepared",
                    "retry the transaction: this will not happen twice",
                ) from None
            return await self._executed(before + sql + then, parameters)

    async def _prepare(self, sql: str) -> str:
        """Prepare a statement if it is due; return the statement to send in its place."""
        if not self._prepared.is_due(sql) or not await self._is_direct():
            return sql
        await self._executed(self._prepared.preparation(sql), ())
        return self._prepared.was_prepared(sql)

    async def _is_direct(self) -> bool:
        # Behind a pooler the next transaction may use a session without prepared statements.
        if self._pooled is None:
            self._pooled = await self.is_pooled()
        return not self._pooled

    async def query_dicts(
        self, sql: str, parameters: Sequence[object] = (), before: str = ""
    ) -> list[dict[str, Any]]:
        """Run one statement and return its rows as dictionaries by column name.

        Args:
            sql: The statement.
            parameters: The values for the ``%s`` placeholders.
            before: Settings to send in the same message, if the statement is to be prepared.
        """
        if before:
            cursor = await self._executed_often(sql, parameters, before=before)
        else:
            cursor = await self._executed(sql, parameters)
        names = [column.name for column in cursor.description]
        return [nested(names, row) for row in cursor.fetchall()]

    def begin(self) -> None:
        """Open a transaction with the next statement, in the same message."""
        self._is_beginning = True

    async def commit(self, last: Statement | None = None) -> None:
        """Commit the open transaction.

        Args:
            last: A frequent statement to run before, in the same message. If it fails, the
                transaction stays open.

        Raises:
            TransactionMisused: When one of its statements has ended the transaction.
            Refused: When one of its statements failed, even if the error was swallowed: the
                server rolls back.
        """
        if not self._is_beginning and self.is_idle:
            raise ended_inside()
        if last is not None and self._has_failed:
            raise rolled_back()
        if last is not None:
            cursor = await self._executed_often(*last, then="; commit")
        elif self._is_beginning:
            self._is_beginning = False
            return
        else:
            cursor = await self._executed("commit", ())
        if cursor.statusmessage != "COMMIT":
            raise rolled_back()

    async def roll_back(self) -> None:
        """Roll back; if that fails, close the connection, which makes the server roll back."""
        self._is_beginning = False
        if self.is_dead:
            self.close()
        elif not self.is_idle:
            try:
                await self._executed("rollback", ())
            except Exception:
                self.close()

    def _executed(
        self,
        sql: str,
        parameters: Sequence[object],
        translate: Callable[[BaseException], BaseException] = translation,
    ) -> Awaitable[Any]:
        run = self._begun_with if self._is_beginning else self._sent
        return run(sql, parameters, translate)

    async def _begun_with(
        self,
        sql: str,
        parameters: Sequence[object],
        translate: Callable[[BaseException], BaseException],
    ) -> Any:
        """Begin the transaction, and execute its first statement."""
        self._is_beginning = False
        try:
            # On a line of its own: the text of an error shows the line of the statement.
            return await self._sent(f"begin;\n{sql}", parameters, translate)
        except Exception as error:
            was_run = getattr(error, "pgcode", None) not in (None, SYNTAX_ERROR)
            if was_run or self.is_dead or not self.is_idle:
                raise
        # A message with a syntax error does not begin a transaction. The statement fails again
        # inside one, so that the caller's next statement does not run outside.
        await self._sent("begin", (), translate)
        return await self._sent(sql, parameters, translate)

    async def _sent(
        self,
        sql: str,
        parameters: Sequence[object],
        translate: Callable[[BaseException], BaseException],
    ) -> Any:
        self._be_patient()
        try:
            return await self._driver.send(sql, parameters, self._give_up)
        except GeneratorExit:
            # As when the reactor has ended before the answer came.
            self._driver.forget_caller()
            raise
        except Exception as error:
            other = demoted(translate(error), self._driver.session)
            if self._driver.is_out_of_step:
                other = _out_of_step()
            if isinstance(other, DatabaseUnavailable | CancelledError):
                self._is_broken = True
            if other is error:
                raise
            raise other from None
        finally:
            # A notification that came with the answer may have sent the next statement already.
            if self._asked_at is not None and not self._driver.is_awaited:
                self._asked_at = None
                self._answered_at = self._reactor.seconds()

    def _be_patient(self) -> None:
        """Start waiting for an answer; one timer serves many statements."""
        if self._patience is not None:
            self._asked_at = self._reactor.seconds()
            if self._timer is None:
                self._timer = self._reactor.callLater(self._patience, self._look)

    def _look(self) -> None:
        """Close the connection if an answer takes too long, and cancel the statement."""
        self._timer = None
        if self._patience is None or self._asked_at is None:
            return
        left = self._asked_at + self._patience - self._reactor.seconds()
        if left > 0:
            self._timer = self._reactor.callLater(left, self._look)
        else:
            self.was_silent = True
            self._give_up()

    def _give_up(self) -> None:
        # After a cancellation the state of the session is unknown, so do not use it again.
        self._is_broken = True
        driver = self._driver.session
        backend = 0 if driver.closed else driver.get_backend_pid()
        self.close()
        asking = Deferred.fromCoroutine(self._cancel_backend(backend))
        # No caller is left to report an error to; an unreachable server ends the statement itself.
        asking.addErrback(lambda _: None)

    async def _cancel_backend(self, backend: int) -> None:
        assert self._attempt is not None
        other = Connection(self._reactor, self._application_name, CANCEL_PATIENCE)
        await other._open(self._attempt)
        try:
            await other.query(CANCEL, (backend,))
        finally:
            other.close()

    async def is_pooled(self) -> bool:
        """Tell whether a pooler is in between, by a process id that differs from the backend's."""
        rows = await self.query("select pg_backend_pid()")
        return bool(rows[0][0] != self._driver.session.get_backend_pid())

    def on_notify(self, receive: Callable[[Sequence[Notify]], None]) -> None:
        """Call a function with notifications, those that arrive together at once."""
        self._driver.on_notify(receive)

    def close(self) -> None:
        """Close the connection; harmless if it is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._driver.close()


async def _first(
    attempts: Sequence[ConnectAttempt],
    make: Callable[[ConnectAttempt], Awaitable[Connection]],
    slow_hosts: SlowHosts,
) -> Connection:
    """Make one attempt after the other, at slow hosts last; return the first connection."""
    failures: list[DatabaseUnavailable] = []
    for attempt in slow_hosts.last(attempts):
        try:
            with slow_hosts.timing(attempt):
                return await make(attempt)
        except DatabaseUnavailable as error:
            failures.append(error)
    raise of_all(failures)


def _out_of_step() -> DatabaseUnavailable:
    """Return the error for a connection on which a statement is underway without a caller."""
    return DatabaseUnavailable(
        "another statement was still underway on this connection, which gets replaced",
        "try again",
    )
