"""Connections of psycopg 3: how they are made, whether they still work, what their errors mean."""

from __future__ import annotations

import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from inspect import signature
from random import uniform
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import psycopg
from psycopg.adapt import Buffer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format, TransactionStatus

from txqueue.adapters.calls import error_of
from txqueue.errors import ConfigurationError, DatabaseUnavailable
from txqueue.model.sqlstates import READ_ONLY, is_lost, outlasts_retries
from txqueue.store.driver import session_bounds, shared_errors

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool, ConnectionPool


AnyConnection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
C = TypeVar("C", bound=AnyConnection)
MANNER: Final[Mapping[str, Any]] = {"autocommit": True, "prepare_threshold": None}
"""How connections are made: behind a pooler the next statement may run in another session."""
_OF_THE_DRIVER: Final = frozenset(signature(psycopg.Connection.connect).parameters)
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
# An idle connection that has ended says so with a message, an alert of TLS and the end itself.
_LAST_MESSAGES: Final = 3


def parameters_of(dsn: str, application_name: str) -> dict[str, Any]:
    """Return the parameters with which to connect.

    Args:
        dsn: A libpq URI or keyword string, perhaps with several hosts.
        application_name: Shown in ``pg_stat_activity``, unless the DSN has a name.

    Raises:
        ConfigurationError: When the DSN is not valid.
    """
    given = _parsed(dsn)
    hosts = str(given.get("host") or os.environ.get("PGHOST", ""))
    patience = (
        session_bounds.CONNECTS_WITHIN_OF_SEVERAL
        if "," in hosts
        else session_bounds.CONNECTS_WITHIN
    )
    own = {**session_bounds.NOTICING, "fallback_application_name": application_name}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        own["connect_timeout"] = str(round(patience))
    return {**own, **given, **session_bounds.ENCODED}


def check_dsn(dsn: object, name: str) -> None:
    """Check what libpq can read as a DSN.

    Raises:
        ConfigurationError: When it cannot; the message shows no part that may be secret.
    """
    try:
        _parsed(dsn)
    except ConfigurationError as fault:
        raise ConfigurationError(fault.what.replace("the DSN", name, 1), fault.remedy) from None


def _parsed(dsn: object) -> dict[str, Any]:
    if not isinstance(dsn, str) or "\0" in dsn:
        raise shared_errors.invalid_dsn(dsn)
    try:
        return dict(conninfo_to_dict(dsn))
    except psycopg.ProgrammingError as error:
        raise shared_errors.invalid_dsn(dsn, str(error)) from None


class Home:
    """The process in which a queue was connected, or a transaction began."""

    is_over = False

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_left(self) -> bool:
        """Whether this process is a fork of that one."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Check that this is the process.

        Raises:
            ConfigurationError: When it is a fork of that one.
        """
        if self.is_left:
            raise ConfigurationError(
                f"the queue was connected before the fork, in process {self._pid}: both would use"
                " the same connections, and read the answers to each other's statements",
                "connect a queue in each process, after the fork (gunicorn: in post_fork)",
            )


def dsn_of_pool(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> str | None:
    """Return where a pool connects; None where a function tells that for each connection."""
    conninfo, kwargs = pool.conninfo, pool.kwargs or {}
    if callable(conninfo) or callable(kwargs):
        return None
    given = {name: value for name, value in kwargs.items() if name not in _OF_THE_DRIVER}
    dsn: str = make_conninfo(conninfo, **given)
    return dsn


def translation(error: BaseException) -> BaseException:
    """Return the error to raise instead of a driver's error; return other errors unchanged."""
    if not isinstance(error, psycopg.Error):
        return error
    if _is_of_pool(error, "PoolClosed"):
        return DatabaseUnavailable(
            f"the given pool lends nothing: {error}", "open it before connect(), close it last"
        )
    if _is_of_pool(error, "PoolTimeout", "TooManyRequests"):
        return DatabaseUnavailable(
            f"the given pool has lent no connection: {error}",
            "all may be in use (max_size, timeout): inside queue.transaction() use txn.enqueue(),"
            " as queue.enqueue() takes another one; or the database is away, as the log says"
            " (psycopg.pool)",
        )
    if (refusal := error_of(error)) is not None:
        return refusal
    text = error.diag.message_primary or str(error) or type(error).__name__
    if error.sqlstate == READ_ONLY:
        return shared_errors.not_primary(text)
    return shared_errors.unavailable(error.sqlstate, text) if _is_lost(error) else error


def _is_of_pool(error: BaseException | None, *names: str) -> bool:
    # Programs without a pool need not have psycopg_pool.
    pools = sys.modules.get("psycopg_pool")
    return pools is not None and isinstance(error, tuple(getattr(pools, name) for name in names))


def _is_lost(error: psycopg.Error) -> bool:
    is_operational = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return is_lost(error.sqlstate, is_operational=is_operational)


def _is_standby(connection: AnyConnection) -> bool:
    return any(
        connection.info.parameter_status(sign) == "on" for sign in shared_errors.SIGNS_OF_A_STANDBY
    )


@contextmanager
def answered(raised: Sequence[BaseException] = ()) -> Iterator[None]:
    """Convert the driver's errors into txqueue's inside the block; each is kept as the cause.

    Args:
        raised: Errors that the application has raised, which stay what they are.
    """
    try:
        yield
    except psycopg.Error as error:
        other = error if error in raised else translation(error)
        if other is error:
            raise
        raise other from error


@contextmanager
def connecting(dsn: str, application_name: str) -> Iterator[dict[str, Any]]:
    """Give the parameters with which to connect inside the block.

    Raises:
        DatabaseUnavailable: When no host of the DSN accepts a connection.
        ConfigurationError: When the DSN is not valid.
    """
    parameters = {**MANNER, **parameters_of(dsn, application_name)}
    with shared_errors.naming_source(dsn), answered():
        yield parameters


@contextmanager
def lost(connection: AnyConnection) -> Iterator[None]:
    """Convert only the driver's error for a lost connection or primary, for statements of the
    application.
    """
    try:
        yield
    except psycopg.Error as error:
        is_demoted = error.sqlstate == READ_ONLY and _is_standby(connection)
        if not (is_demoted or _is_lost(error)):
            raise
        raise translation(error) from error


@contextmanager
def lending(connection: AnyConnection) -> Iterator[None]:
    """Close a connection at an error inside the block if its server accepts no writes.

    After a fail-over the next one may lead to the primary.
    """
    try:
        yield
    except BaseException:
        if not connection.closed and _is_standby(connection):
            connection.pgconn.finish()
        raise


def is_passing(error: BaseException) -> bool:
    """Tell whether the same statement may succeed later, once the database is back."""
    if isinstance(error, psycopg.Error):
        return error.sqlstate is not None and not outlasts_retries(error.sqlstate)
    return isinstance(error, DatabaseUnavailable) and not _is_of_pool(error.__cause__, "PoolClosed")


def is_alive(connection: AnyConnection) -> bool:
    """Tell, without a round trip, whether an idle connection still works.

    A server that has stopped or restarted has ended the connection, which this host knows.
    """
    pgconn = connection.pgconn
    poll = select.poll()
    try:
        poll.register(pgconn.socket, select.POLLIN)
        for _ in range(_LAST_MESSAGES):
            if not poll.poll(0):
                return True
            pgconn.consume_input()
    except psycopg.OperationalError:
        pass
    return False


def is_reusable(connection: AnyConnection) -> bool:
    """Tell whether a connection that was lent is as it was: open, and in no transaction."""
    return (
        not connection.closed
        and connection.autocommit
        and connection.info.transaction_status == TransactionStatus.IDLE
    )


class IdleConnections(Generic[C]):
    """The connections of a queue that are not lent, and are lent again while they work.

    Not psycopg_pool's: it hands out connections of a server that has restarted, or checks each with
    a round trip; after an outage it waits for up to minutes before it connects; and the error for a
    caller that gets no connection does not say why.
    """

    def __init__(self) -> None:
        self._idle: deque[tuple[C, float]] = deque()
        self._longest_life = session_bounds.LONGEST_LIFE * uniform(0.8, 1.0)
        self._is_closed = False

    def close(self) -> None:
        """Close idle connections now, and lent ones when they are returned."""
        self._is_closed = True
        while (found := self._popped()) is not None:
            found[0].pgconn.finish()

    def take(self) -> tuple[C, float] | None:
        """Return a connection that works, and when it was opened; None if there is none.

        Raises:
            DatabaseUnavailable: When the queue is closed.
        """
        if self._is_closed:
            raise DatabaseUnavailable("the queue is closed", "use it before close()")
        while (found := self._popped()) is not None:
            connection, opened_at = found
            is_young = time.monotonic() - opened_at < self._longest_life
            if is_young and is_alive(connection):
                return found
            connection.pgconn.finish()
        return None

    def put_back(self, connection: C, opened_at: float) -> None:
        """Keep a connection that was lent, or close it."""
        # The application may have left a transaction open; do not reuse such a connection.
        if self._is_closed or not is_reusable(connection):
            connection.pgconn.finish()
        else:
            self._idle.append((connection, opened_at))

    def _popped(self) -> tuple[C, float] | None:
        # Another thread may take the last one between a check and the pop.
        with suppress(IndexError):
            return self._idle.pop()
        return None


class _AnyMoment:
    """Reads a moment beyond Python's range, such as infinity, as the nearest one within it.

    Args:
        oid: The number of the type.
        context: The connection or cursor.
    """

    format = Format.BINARY

    def __init__(self, oid: int, context: Any = None) -> None:
        """Keep nothing."""

    def load(self, data: Buffer) -> datetime:
        """Return a moment from the microseconds that the server sends."""
        microseconds = int.from_bytes(data, "big", signed=True)
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError:
            return _LATEST if microseconds > 0 else _EARLIEST


def read_all_moments(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> None:
    """Make a cursor read any timestamp, whatever the settings of the session."""
    cursor.format = Format.BINARY
    cursor.adapters.register_loader("timestamptz", _AnyMoment)
