"""Enqueueing as an exchange over the application's own connection: statements and answers, and the
errors of the drivers.

`run` and `arun` send them over the caller's own connection. Nothing here differs between a driver
that blocks and one that does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import frozen

from txqueue.errors import InvalidWork, Refused, TxqueueError
from txqueue.model.sqlstates import IN_FAILED_TRANSACTION, refusal_of
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.portable_calls import (
    SAVEPOINT,
    TRANSACTION,
    Exchange,
    Frame,
    Signal,
    Statement,
    many_statements,
    one_statement,
    signal_sent,
)
from txqueue.tracing.choice import sending

if TYPE_CHECKING:
    from txqueue.adapters.calls import DriverSession

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


def raise_refusal(error: BaseException) -> None:
    """Raise the error of txqueue that a driver's stands for, if it is a refusal."""
    refusal = error_of(error)
    if refusal is not None:
        raise refusal from error


class _Refusals:
    """A block whose errors of a driver are raised as those of txqueue, where they are refusals."""

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raise the refusal that an error stands for."""
        if isinstance(error, Exception):
            raise_refusal(error)


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
        statement = one_statement(work, call.options, terms.schema, terms.connection.style)
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
