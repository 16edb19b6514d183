"""What adapters share: a call as statements and answers, and the functions that make it."""

from __future__ import annotations

import re
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, Final, Generic, TypeVar, Unpack

from attrs import frozen

from txqueue.errors import InvalidWork, Refused, TransactionMisused, TxqueueError
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.sqlstates import IN_FAILED_TRANSACTION, refusal_of
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.batch import Batch, BatchNumbers
from txqueue.store.enqueueing.calls import ParamStyle, Statement, enqueue_call
from txqueue.store.enqueueing.portable_calls import (
    SAVEPOINT,
    TRANSACTION,
    Exchange,
    Frame,
    Receiver,
    Signal,
    arun,
    many_statements,
    run,
    signal_sent,
)
from txqueue.tracing.choice import sending

# How many errors are wrapped around the driver's own, at most: SQLAlchemy with asyncpg has two.
_DEPTH = 4


def error_of(error: BaseException) -> TxqueueError | None:
    """Return the error of txqueue for an error of a driver that a statement has raised.

    Args:
        error: An error of psycopg2, psycopg, asyncpg or pg8000, or one of SQLAlchemy or Django
            around it.

    Returns:
        The error to raise instead, ``from`` the driver's; None if that is to be raised itself, as
        it is no refusal: a lost connection, a deadlock, a timeout.
    """
    if isinstance(error, UnicodeEncodeError):
        return InvalidWork(
            f"the encoding of the connection, {error.encoding}, lacks a character of the job",
            "set client_encoding to UTF8",
        )
    for candidate in _wrapped(error):
        sqlstate, message, hint = _fields(candidate)
        if sqlstate is not None and message:
            return _refusal(sqlstate, message, hint)
    return None


def sqlstate_of(error: BaseException) -> str | None:
    """Return the server's code in an error of a driver, or of what is around it; None without."""
    return next(filter(None, (_fields(candidate)[0] for candidate in _wrapped(error))), None)


def _refusal(sqlstate: str, message: str, hint: str | None) -> TxqueueError | None:
    if sqlstate == IN_FAILED_TRANSACTION:
        return Refused(
            "an earlier statement of this transaction has failed, and PostgreSQL ignores the rest",
            "roll back; savepoint=True keeps the transaction usable after an enqueue that fails",
        )
    return refusal_of(sqlstate, message, hint)


def _wrapped(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that it was raised from."""
    inner: Any = error
    for _ in range(_DEPTH):
        if not isinstance(inner, BaseException):
            return
        yield inner
        inner = getattr(inner, "orig", None) or inner.__cause__


def _fields(error: Any) -> tuple[str | None, str | None, str | None]:
    """Return SQLSTATE, message and hint of the server; None for what the error does not have."""
    fields = error.args[0] if error.args else None
    if isinstance(fields, Mapping):
        return fields.get("C"), fields.get("M"), fields.get("H")
    sqlstate = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if (diag := getattr(error, "diag", None)) is not None:
        return sqlstate, diag.message_primary, diag.message_hint
    return sqlstate, getattr(error, "message", None), getattr(error, "hint", None)


class _Refusals:
    """A block whose errors of a driver are raised as those of txqueue, where they are refusals."""

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raise the refusal that an error stands for."""
        if isinstance(error, Exception) and (refusal := error_of(error)) is not None:
            raise refusal from error


REFUSALS: Final = _Refusals()
T = TypeVar("T")


@frozen
class Terms:
    """How a caller's connection is used.

    Attributes:
        connection: The connection.
        schema: The name of txqueue's schema.
        savepoint: Whether a refusal leaves the caller's transaction as it was.
    """

    connection: DriverSession[Any]
    schema: str
    savepoint: bool

    def frame(self, *, is_one: bool) -> Frame | None:
        """Return the frame of one or several statements; None if they need none."""
        if is_one and not self.savepoint:
            return None
        if self.connection.is_alone:
            return None if is_one else TRANSACTION
        return SAVEPOINT


def one(work: WorkItem, options: Mapping[str, Any], terms: Terms) -> Exchange[int]:
    """Enqueue one work item; return the job's number."""
    with sending(work, options) as call:
        statement = enqueue_call(terms.schema, work, call.options, terms.connection.style)
        job_id = int((yield from _framed(_asked(statement), terms.frame(is_one=True))))
        call.enqueued(job_id)
    return job_id


def many(
    works: Iterable[WorkItem], options: Mapping[str, Any], terms: Terms
) -> Exchange[list[int]]:
    """Enqueue work items, all or none of them; return the numbers of the jobs."""
    remaining = iter(works)
    first = next(remaining, None)
    if first is None:
        return []
    with sending(first, options) as call:
        watched = call.watch(chain([first], remaining))
        statements = many_statements(watched, call.options, terms.schema, terms.connection.style)
        ids = yield from _several(statements, terms)
        call.enqueued(*ids)
    return ids


def signalled(signal: Signal, terms: Terms) -> Exchange[bool]:
    """Send a signal; return whether it is new."""
    sending = signal_sent(signal, terms.schema, terms.connection.style)
    with REFUSALS:
        return (yield from _framed(sending, terms.frame(is_one=True)))


def _several(statements: Iterator[Statement], terms: Terms) -> Exchange[list[int]]:
    # All of one statement is checked before it is sent.
    first, second = next(statements), next(statements, None)
    ahead = [first] if second is None else [first, second]
    frame = terms.frame(is_one=second is None)
    return (yield from _framed(_each(chain(ahead, statements)), frame))


def _each(statements: Iterable[Statement]) -> Exchange[list[int]]:
    ids: list[int] = []
    for sql, parameters in statements:
        # As text: asyncpg asks the server what an array is, in four round trips.
        text = yield from _asked((f"{sql}::text", parameters))
        ids += map(int, text.strip("{}").split(","))
    return ids


def _framed(exchange: Exchange[T], frame: Frame | None) -> Exchange[T]:
    if frame is None:
        return (yield from exchange)
    yield from _asked((frame.opening, ()))
    try:
        answer = yield from exchange
    except GeneratorExit:
        raise
    except BaseException:
        for sql in frame.undoing:
            # The first error is the one to raise, also if the connection is lost.
            with suppress(Exception):
                yield sql, ()
        raise
    yield from _asked((frame.closing, ()))
    return answer


def _asked(statement: Statement) -> Exchange[Any]:
    with REFUSALS:
        return (yield statement)


C = TypeVar("C")


class DriverSession(Generic[C]):
    """A connection of an application: how its driver runs a statement.

    Args:
        connection: The connection.

    Attributes:
        style: How the driver spells parameters.
        is_asynchronous: Whether `value` and `rows` return awaitables.
    """

    style: ParamStyle = "format"
    is_asynchronous = False

    def __init__(self, connection: C) -> None:
        self.connection = connection

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        raise NotImplementedError

    @property
    def is_alone(self) -> bool:
        """Whether each statement is a transaction of its own."""
        raise NotImplementedError

    def value(self, statement: Statement) -> Any:
        """Send a statement; return the only value of its result, None for no result."""
        rows = self.rows(*statement)
        return rows[0][0] if rows else None

    def rows(self, sql: str, parameters: Any) -> Any:
        """Send a statement with ``%s`` for each parameter; return its rows."""
        with self.cursor() as cursor:
            cursor.execute(sql, parameters)
            return [] if cursor.description is None else cursor.fetchall()

    def cursor(self) -> Any:
        """Return a cursor as Python's DB-API has them, with plain rows."""
        raise NotImplementedError

    def together(self) -> Any:
        """Return the context manager for several statements."""
        return nullcontext()

    def before_undo(self) -> None:
        """Prepare to roll a failed transaction back to a savepoint."""


class AsyncDriverSession(DriverSession[C]):
    """A connection that does not block."""

    is_asynchronous = True

    async def value(self, statement: Statement) -> Any:
        """Send a statement; return the only value of its result, None for no result."""
        rows = await self.rows(*statement)
        return rows[0][0] if rows else None


class BlockingCalls(Generic[C]):
    """The functions of an adapter for connections that block.

    Args:
        session: Returns the session of a connection, or raises a TypeError.
    """

    def __init__(self, session: Callable[[C], DriverSession[Any]]) -> None:
        self._session = session

    def enqueue(
        self,
        connection: C,
        work: WorkItem,
        *,
        schema: str = "txqueue",
        savepoint: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> int:
        """Enqueue work in the connection's transaction; without one, it is committed at once.

        Args:
            connection: The caller's own open connection or session; it is not committed.
            work: An instance of an attrs subclass of `WorkItem`.
            schema: The name of txqueue's schema.
            savepoint: Whether a refusal leaves the transaction usable, for two more statements.
            options: As for `WorkQueue.enqueue`.

        Returns:
            The job's number.

        Raises:
            InvalidWork: When the work or an option is not valid; nothing is sent.
            Refused: When the database refuses the job; the transaction must be rolled back, unless
                there is a savepoint. `QueueFull`, `Duplicate` and `NotPermitted` are such errors.
            SchemaMismatch: When the database has no such schema.
        """
        session = self._session(connection)
        return _run(session, one(work, options, Terms(session, schema, savepoint)))

    def enqueue_many(
        self,
        connection: C,
        works: Iterable[WorkItem],
        *,
        schema: str = "txqueue",
        savepoint: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> list[int]:
        """Enqueue many work items, all or none, a thousand per statement; see `enqueue`.

        Returns:
            The numbers of the jobs, in order.
        """
        session = self._session(connection)
        return _run(session, many(works, options, Terms(session, schema, savepoint)))

    def signal(
        self,
        connection: C,
        of: Receiver,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        schema: str = "txqueue",
        savepoint: bool = False,
    ) -> bool:
        """Send a signal to a job with steps, in the connection's transaction.

        Args:
            connection: The caller's own open connection or session; it is not committed.
            of: The number of the job, or its class and the unique key that it holds.
            name: The name of the signal.
            value: What `wait_for` of the job returns, as JSON has it: plain data or an attrs
                object. It is encrypted if the job's type is and this process has the key.
            key: Makes the call idempotent: a second signal of this name and key changes nothing.
            schema: The name of txqueue's schema.
            savepoint: Whether a refusal leaves the transaction usable, for two more statements.

        Returns:
            Whether the signal is new.

        Raises:
            InvalidWork: When the name, the value or the key is not valid; nothing is sent.
            KeyUnavailable: When the value must be encrypted, and this process has no key.
            Refused: When the job has ended or there is none, or when its type is encrypted and the
                value is in clear; the transaction must be rolled back, unless there is a savepoint.
            SchemaMismatch: When the database has no such schema.
        """
        session = self._session(connection)
        terms = Terms(session, schema, savepoint)
        return _run(session, signalled(Signal(of, name, value, key), terms))

    @contextmanager
    def batch(
        self,
        connection: C,
        callback: WorkItem,
        *,
        schema: str = "txqueue",
        **options: Unpack[EnqueueOptions],
    ) -> Iterator[BlockingBatch]:
        """Collect a batch of jobs; its callback runs once all of them have ended, in any way.

        Args:
            connection: The caller's own open connection or session.
            callback: The work item to run once all jobs have ended; it has no unique key.
            schema: The name of txqueue's schema.
            options: Options of the callback, as for `enqueue`.

        Returns:
            A context manager whose value has the methods ``enqueue`` and ``enqueue_many``.

        Raises:
            TransactionMisused: When the connection commits each statement by itself.
        """
        _check_begun(self._session(connection))
        # A session is asked for its connection again by each call, which begins that of
        # begin_nested() of SQLAlchemy.
        batch = BlockingBatch(_calls_of(self, connection, schema))
        yield batch
        batch.end()
        waiting = _waiting(options, batch.ids)
        batch.callback_id = self.enqueue(connection, callback, schema=schema, **waiting)


class AsyncCalls(Generic[C]):
    """The functions of an adapter for connections that do not block; see `BlockingCalls`.

    Args:
        session: Returns the session of a connection, or raises a TypeError.
    """

    def __init__(self, session: Callable[[C], Awaitable[DriverSession[Any]]]) -> None:
        self._session = session

    async def enqueue(
        self,
        connection: C,
        work: WorkItem,
        *,
        schema: str = "txqueue",
        savepoint: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> int:
        """Enqueue work in the connection's transaction; without one, it is committed at once.

        Args:
            connection: The caller's own open connection or session; it is not committed.
            work: An instance of an attrs subclass of `WorkItem`.
            schema: The name of txqueue's schema.
            savepoint: Whether a refusal leaves the transaction usable, for two more statements.
            options: As for `WorkQueue.enqueue`.

        Returns:
            The job's number.

        Raises:
            InvalidWork: When the work or an option is not valid; nothing is sent.
            Refused: When the database refuses the job; the transaction must be rolled back, unless
                there is a savepoint. `QueueFull`, `Duplicate` and `NotPermitted` are such errors.
            SchemaMismatch: When the database has no such schema.
        """
        session = await self._session(connection)
        return await _arun(session, one(work, options, Terms(session, schema, savepoint)))

    async def enqueue_many(
        self,
        connection: C,
        works: Iterable[WorkItem],
        *,
        schema: str = "txqueue",
        savepoint: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> list[int]:
        """Enqueue many work items, all or none, a thousand per statement; see `enqueue`.

        Returns:
            The numbers of the jobs, in order.
        """
        session = await self._session(connection)
        return await _arun(session, many(works, options, Terms(session, schema, savepoint)))

    async def signal(
        self,
        connection: C,
        of: Receiver,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        schema: str = "txqueue",
        savepoint: bool = False,
    ) -> bool:
        """Send a signal to a job with steps; see `BlockingCalls.signal`."""
        session = await self._session(connection)
        terms = Terms(session, schema, savepoint)
        return await _arun(session, signalled(Signal(of, name, value, key), terms))

    @asynccontextmanager
    async def batch(
        self,
        connection: C,
        callback: WorkItem,
        *,
        schema: str = "txqueue",
        **options: Unpack[EnqueueOptions],
    ) -> AsyncIterator[Batch]:
        """Collect a batch of jobs with ``async with``; see `BlockingCalls.batch`."""
        _check_begun(await self._session(connection))
        batch = Batch(_calls_of(self, connection, schema))
        yield batch
        batch.end()
        waiting = _waiting(options, batch.ids)
        batch.callback_id = await self.enqueue(connection, callback, schema=schema, **waiting)


def _run(session: DriverSession[Any], exchange: Exchange[T]) -> T:
    with session.together():
        return run(exchange, session.value)


async def _arun(session: DriverSession[Any], exchange: Exchange[T]) -> T:
    async with session.together():
        return await arun(exchange, session.value)


def _check_begun(session: DriverSession[Any]) -> None:
    if session.is_alone:
        raise TransactionMisused(
            "a batch needs a transaction, and this connection commits each statement",
            "begin one: the jobs of the batch and its callback are committed together",
        )


def _waiting(options: Mapping[str, Any], ids: list[int]) -> dict[str, Any]:
    return {**options, "after": ids, "after_any_end": True}


@frozen
class _Calls:
    """The functions that enqueue, for one connection and schema."""

    enqueue: Callable[..., Any]
    enqueue_many: Callable[..., Any]


def _calls_of(calls: BlockingCalls[C] | AsyncCalls[C], connection: C, schema: str) -> _Calls:
    return _Calls(
        partial(calls.enqueue, connection, schema=schema),
        partial(calls.enqueue_many, connection, schema=schema),
    )


class BlockingBatch(BatchNumbers):
    """A batch whose jobs are being enqueued, made by the function `batch` of an adapter.

    Args:
        calls: The functions that enqueue.

    Attributes:
        ids: The numbers of the jobs enqueued so far.
        callback_id: The callback's job number, which identifies the batch; read it after the block.
    """

    def __init__(self, calls: _Calls) -> None:
        super().__init__()
        self._calls = calls

    def enqueue(
        self, work: WorkItem, *, savepoint: bool = False, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Enqueue a job of the batch; see the adapter's `enqueue`."""
        self._check()
        job_id: int = self._calls.enqueue(work, savepoint=savepoint, **options)
        self.ids.append(job_id)
        return job_id

    def enqueue_many(
        self,
        works: Iterable[WorkItem],
        *,
        savepoint: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> list[int]:
        """Enqueue many jobs of the batch; see the adapter's `enqueue_many`."""
        self._check()
        ids: list[int] = self._calls.enqueue_many(works, savepoint=savepoint, **options)
        self.ids += ids
        return ids


# Each has a function `foreign`, and the driver of its name.
_ADAPTERS: Final = ("psycopg2", "psycopg", "asyncpg", "sqlalchemy")
_PLACE: Final = re.compile("%[s%]")


async def foreign_session(connection: Any) -> DriverSession[Any] | None:
    """Return the session of a connection of any driver with an adapter; None for other objects.

    It waits for nothing unless the connection is asynchronous.
    """
    # A connection of a driver that is not imported cannot be there.
    for name in filter(sys.modules.__contains__, _ADAPTERS):
        adapter: Any = import_module(f"txqueue.adapters.{name}")
        found: DriverSession[Any] | None = await adapter.foreign(connection)
        if found is not None:
            return found
    return None


def as_numbered(sql: str, parameters: Sequence[object]) -> str:
    """Return a statement with ``%s`` for parameters as one with ``$1``, ``$2`` and so on.

    Texts are sent as texts, whatever the statement casts them to.
    """
    numbered = enumerate(parameters, 1)

    def place(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        number, value = next(numbered)
        return f"cast(${number} as text)" if isinstance(value, str) else f"${number}"

    return _PLACE.sub(place, sql)
