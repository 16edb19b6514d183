"""Enqueueing as an exchange over the application's own connection: statements and answers, batches,
and the errors of the drivers.

`run` and `arun` send them over the caller's own connection. Nothing else here differs between a
driver that blocks and one that does not.
"""

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
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from itertools import chain
from typing import Any, Final, TypeVar, Unpack

from attrs import frozen

from txqueue.errors import InvalidWork, Refused, TransactionMisused, TxqueueError
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.sqlstates import IN_FAILED_TRANSACTION, refusal_of
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.batch import Batch, BatchNumbers
from txqueue.store.enqueueing.portable_calls import (
    SAVEPOINT,
    TRANSACTION,
    Exchange,
    Frame,
    Parameters,
    ParamStyle,
    Statement,
    many_statements,
    one_statement,
)
from txqueue.store.enqueueing.signals import Signal, signal_sent
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


T = TypeVar("T")


@frozen
class Terms:
    """How a caller's connection is used.

    Attributes:
        style: How its driver spells parameters.
        is_alone: Tells whether each statement is a transaction of its own.
        schema: The name of txqueue's schema.
        savepoint: Whether a refusal leaves the caller's transaction as it was.
    """

    style: ParamStyle
    is_alone: Callable[[], bool]
    schema: str
    savepoint: bool

    def frame(self, *, is_one: bool) -> Frame | None:
        """Return the frame of one or several statements; None if they need none."""
        if is_one and not self.savepoint:
            return None
        if self.is_alone():
            return None if is_one else TRANSACTION
        return SAVEPOINT


def send_one(
    send: Callable[[str, Parameters], Any],
    work: WorkItem,
    options: Mapping[str, Any],
    schema: str,
    style: ParamStyle,
) -> int:
    """Enqueue one work item without a savepoint: what `run(one(...))` does, in half its time."""
    with sending(work, options) as call:
        sql, parameters = one_statement(work, call.options, schema, style)
        try:
            job_id = int(send(sql, parameters))
        except Exception as error:
            _raise_refusal(error)
            raise
        call.enqueued(job_id)
    return job_id


async def asend_one(
    send: Callable[[str, Parameters], Awaitable[Any]],
    work: WorkItem,
    options: Mapping[str, Any],
    schema: str,
    style: ParamStyle,
) -> int:
    """Do so over a connection that does not block."""
    with sending(work, options) as call:
        sql, parameters = one_statement(work, call.options, schema, style)
        try:
            job_id = int(await send(sql, parameters))
        except Exception as error:
            _raise_refusal(error)
            raise
        call.enqueued(job_id)
    return job_id


def _raise_refusal(error: Exception) -> None:
    refusal = error_of(error)
    if refusal is not None:
        raise refusal from error


def one(work: WorkItem, options: Mapping[str, Any], terms: Terms) -> Exchange[int]:
    """Enqueue one work item; return the job's number."""
    with sending(work, options) as call:
        statement = one_statement(work, call.options, terms.schema, terms.style)
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
        statements = many_statements(watched, call.options, terms.schema, terms.style)
        ids = yield from _several(statements, terms)
        call.enqueued(*ids)
    return ids


def signalled(signal: Signal, terms: Terms) -> Exchange[bool]:
    """Send a signal; return whether it is new."""
    sending = signal_sent(signal, terms.schema, terms.style)
    try:
        return (yield from _framed(sending, terms.frame(is_one=True)))
    except Exception as error:
        _raise_refusal(error)
        raise


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
    try:
        return (yield statement)
    except Exception as error:
        _raise_refusal(error)
        raise


# Each has a function `foreign`, and the driver of its name.
_ADAPTERS: Final = ("psycopg2", "psycopg", "asyncpg", "sqlalchemy")
_PLACE: Final = re.compile("%[s%]")


@frozen
class ForeignConnection:
    """A connection of an application, as it was when it was first looked at.

    Attributes:
        style: How its driver spells parameters.
        value: Sends a statement; returns the only value of its result, None for no result.
        rows: Sends a statement with ``%s`` for each parameter; returns its rows.
        is_asynchronous: Whether both return awaitables.
        is_open: Whether a transaction was open.
        is_alone: Whether each statement is a transaction of its own.
        before_undo: Called before a failed transaction is rolled back to a savepoint.
    """

    style: ParamStyle
    value: Callable[[str, Parameters], Any]
    rows: Callable[[str, Sequence[object]], Any]
    is_asynchronous: bool
    is_open: bool
    is_alone: bool
    before_undo: Callable[[], None] = lambda: None


async def foreign_connection(connection: Any) -> ForeignConnection | None:
    """Return a connection or session of any driver that has an adapter; None for other objects.

    It waits for nothing unless the connection is asynchronous.
    """
    # A connection of a driver that is not imported cannot be there.
    for name in filter(sys.modules.__contains__, _ADAPTERS):
        adapter: Any = import_module(f"txqueue.adapters.{name}")
        found: ForeignConnection | None = adapter.foreign(connection)
        if found is None and hasattr(adapter, "aforeign"):
            found = await adapter.aforeign(connection)
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


@frozen
class Calls:
    """The functions of an adapter, for one connection.

    Attributes:
        enqueue: Enqueues a work item.
        enqueue_many: Enqueues many.
        is_alone: Tells whether each statement is a transaction of its own.
    """

    enqueue: Callable[..., Any]
    enqueue_many: Callable[..., Any]
    is_alone: Callable[[], bool]

    def check(self) -> None:
        """Check that there is a transaction for a batch.

        Raises:
            TransactionMisused: When there is none.
        """
        if self.is_alone():
            raise TransactionMisused(
                "a batch needs a transaction, and this connection commits each statement",
                "begin one: the jobs of the batch and its callback are committed together",
            )


class BlockingBatch(BatchNumbers):
    """A batch whose jobs are being enqueued, made by the function `batch` of an adapter.

    Args:
        calls: The functions that enqueue.

    Attributes:
        ids: The numbers of the jobs enqueued so far.
        callback_id: The callback's job number, which identifies the batch; read it after the block.
    """

    def __init__(self, calls: Calls) -> None:
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


@contextmanager
def batch(calls: Calls, callback: WorkItem, options: Mapping[str, Any]) -> Iterator[BlockingBatch]:
    """Collect a batch over a connection that blocks; its callback is enqueued at the end."""
    calls.check()
    collected = BlockingBatch(calls)
    yield collected
    collected.end()
    collected.callback_id = calls.enqueue(callback, **_waiting(options, collected.ids))


@asynccontextmanager
async def abatch(
    calls: Calls, callback: WorkItem, options: Mapping[str, Any]
) -> AsyncIterator[Batch]:
    """Collect a batch over a connection that does not block."""
    calls.check()
    collected = Batch(calls)
    yield collected
    collected.end()
    collected.callback_id = await calls.enqueue(callback, **_waiting(options, collected.ids))


def _waiting(options: Mapping[str, Any], ids: list[int]) -> dict[str, Any]:
    return {**options, "after": ids, "after_any_end": True}
