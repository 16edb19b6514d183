"""The errors of txqueue for the SQLSTATEs with which the database refuses a call."""

from __future__ import annotations

from txqueue.errors import (
    Duplicate,
    NotPermitted,
    QueueFull,
    Refused,
    SchemaMismatch,
    TokenLost,
    TxqueueError,
)

IN_FAILED_TRANSACTION = "25P02"
READ_ONLY = "25006"
LOCK_NOT_AVAILABLE = "55P03"
# Raised by refuse(), refuse_full_queue(), enqueue_unique(), complete_one() and write_step().
_REFUSALS: dict[str | None, type[TxqueueError]] = {
    "TXQ01": Refused,
    "TXQ02": QueueFull,
    "TXQ03": Duplicate,
    "TXQ04": TokenLost,
}
# A character that cannot be translated, or is not in the repertoire; text that is no value of its
# type; a number out of range; a moment out of range, or in no format of moments.
_BAD_INPUT: dict[str | None, str] = {
    "22P05": "leave NUL characters out of names and payloads",
    "22021": "pass valid Unicode without NUL characters",
    "22P02": "pass valid JSON",
    "22003": "pass smaller numbers",
    "22008": "pass a moment that PostgreSQL can store",
    "22007": "pass moments in ISO 8601",
}
INSUFFICIENT_PRIVILEGE = "42501"
_GRANTS = (
    "grant its role what it lacks: txqueue_worker for nodes, txqueue_enqueue for applications,"
    " txqueue_read to look; or the right on the application's own table"
)
# A table, a function or a schema that does not exist.
_NO_SCHEMA = {"42P01", "42883", "3F000"}
TOO_MANY_CONNECTIONS = "53300"
# Of a full disk, of memory that is used up, and of too many connections.
_REMEDIES = {
    "53100": "free space on the disks of the database's server",
    "53200": "lower work_mem or max_connections of the database's server, or add memory",
    TOO_MANY_CONNECTIONS: (
        "end sessions (see pg_stat_activity), raise the limit (max_connections, or that of the role"
        " or database), or connect through a pooler"
    ),
}
# A connection that failed or was ended by the server, a role or a database that is gone.
_LOST = ("08", "28P", "3D0", "57P")
# idle_in_transaction_session_timeout and transaction_timeout: drivers take their class for errors
# of their own.
_ENDED = ("25P03", "25P04")
# A lost connection, a read-only or ended transaction, a deadlock or another one that a retry ends,
# a lock or statement timeout, a shutdown, a database that is gone; and txqueue's own refusals.
_PASSING = ("08", "25", "28", "3D", "40", "53300", LOCK_NOT_AVAILABLE, "57", "TXQ")


def refusal_of(sqlstate: str | None, message: str, hint: str | None) -> TxqueueError | None:
    """Return the error to raise for an error of the server; None for one that is not a refusal.

    Args:
        sqlstate: The server's code.
        message: Its primary message.
        hint: Its hint, if it gave one.
    """
    if (refusal := _REFUSALS.get(sqlstate)) is not None:
        return refusal(message, hint or "")
    if (remedy := _BAD_INPUT.get(sqlstate)) is not None:
        return Refused(message, remedy)
    if sqlstate == INSUFFICIENT_PRIVILEGE:
        return NotPermitted(message, _GRANTS)
    if sqlstate in _NO_SCHEMA:
        return SchemaMismatch(message, "run: txqueue migrate")
    return None


def is_exhausted(sqlstate: str) -> bool:
    """Tell whether the server lacks a resource, perhaps for a short time."""
    return sqlstate in _REMEDIES


def is_lost(sqlstate: str | None, *, is_operational: bool) -> bool:
    """Tell whether the connection or the server was lost, rather than a statement failed.

    Args:
        sqlstate: The server's code; None if it has sent none.
        is_operational: Whether the driver has raised an error of the connection or the server.
    """
    if not is_operational:
        return sqlstate in _ENDED
    return sqlstate is None or sqlstate.startswith(_LOST) or is_exhausted(sqlstate)


def remedy_of(sqlstate: str | None) -> str:
    """Return how to repair what makes the server answer statements with this code."""
    return _REMEDIES.get(sqlstate or "", "see the log of the database's server")


def outlasts_retries(sqlstate: str) -> bool:
    """Tell whether a statement that failed with this code may fail until something is repaired."""
    return not sqlstate.startswith(_PASSING)
