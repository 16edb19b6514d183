"""Errors for what a database or an application has done, whatever the driver."""

from __future__ import annotations

from typing import Final

from txqueue.errors import DatabaseUnavailable, Refused, TransactionMisused
from txqueue.model.sqlstates import TOO_MANY_CONNECTIONS, is_exhausted, remedy_of

__all__ = [
    "CHECK_DSN",
    "SIGNS_OF_A_STANDBY",
    "ended_inside",
    "none_free",
    "not_primary",
    "rolled_back",
    "unavailable",
]

CHECK_DSN: Final = "check the DSN (--dsn, TXQUEUE_DSN) and that the server runs"
"""The remedy where nothing answers, until `naming_source` names the setting."""
SIGNS_OF_A_STANDBY: Final = ("in_hot_standby", "default_transaction_read_only")
"""Parameters that a server reports as ``on`` if it accepts no writes."""
# Characters of the driver's text in an error.
_LONGEST: Final = 300
# What servers and PgBouncer say to a connection that is one too many; such an error has no code.
_TOO_MANY: Final = (
    "too many c",
    "connection slots are reserved",
    "no more connections",
    "max_client_conn",
)


def unavailable(sqlstate: str | None, text: str) -> DatabaseUnavailable:
    """Return the error for a connection that was lost or could not be made.

    Args:
        sqlstate: The server's code; None if it has sent none.
        text: Its primary message, or the driver's.
    """
    line = " ".join(text.split())
    if len(line) > _LONGEST:
        # At a space, as half of a secret would not be recognized.
        line = line[:_LONGEST].rpartition(" ")[0]
    what, remedy = _unavailability(sqlstate, line)
    return DatabaseUnavailable(f"the database {what}: {line}", remedy)


def _unavailability(sqlstate: str | None, text: str) -> tuple[str, str]:
    """Return what the database does, and the remedy."""
    if sqlstate is not None:
        if is_exhausted(sqlstate):
            return "refuses the statement", remedy_of(sqlstate)
        return "has ended the connection", "connect again; if it lasts, see the server's log"
    # Only a server that answers says so; the error of a failed attempt to connect has no code.
    if "FATAL:" not in text:
        return "does not answer", CHECK_DSN
    if any(words in text for words in _TOO_MANY):
        return "refuses the connection", remedy_of(TOO_MANY_CONNECTIONS)
    return "refuses the connection", CHECK_DSN


def not_primary(text: str) -> DatabaseUnavailable:
    """Return the error for a write that a standby has refused with this message."""
    return DatabaseUnavailable(
        f"the server accepts no writes: {text}",
        "is it a standby? name all hosts in the DSN, with target_session_attrs=read-write; if it is"
        " the primary, reset default_transaction_read_only, or begin the transaction read write",
    )


def none_free(seconds: float, size: int) -> DatabaseUnavailable:
    """Return the error for a caller that no connection became free for."""
    return DatabaseUnavailable(
        f"no connection was free within {seconds:g} s: all {size} are in use",
        "inside queue.transaction() use txn.enqueue(), as queue.enqueue() takes another one;"
        " or allow more with connect(connections=...)",
    )


def ended_inside() -> TransactionMisused:
    """Return the error for a transaction that one of its own statements has ended."""
    return TransactionMisused(
        "a statement ended the transaction: commit, rollback or prepare transaction",
        "leave the end to the block of transaction(); raise an error to roll back, or use a"
        " savepoint",
    )


def rolled_back() -> Refused:
    """Return the error for a transaction that cannot commit."""
    return Refused(
        "the transaction was rolled back, because a statement in it had failed",
        "let the error of the statement end the transaction, or use a savepoint",
    )
