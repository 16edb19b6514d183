"""Reads the errors of the drivers: each keeps the server's code in a place of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from txqueue.errors import InvalidWork, Refused, TxqueueError
from txqueue.model.sqlstates import IN_FAILED_TRANSACTION, refusal_of

__all__ = ["error_of", "sqlstate_of"]

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
