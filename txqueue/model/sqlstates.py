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
# Raised by refuse(), refuse_full_queue(), refuse_duplicate(), complete_one() and write_step().
_REFUSALS: dict[str | None, type[TxqueueError]] = {
    "TXQ01": Refused,
    "TXQ02": QueueFull,
    "TXQ03": Duplicate,
    "TXQ04": TokenLost,
}
_UNTRANSLATABLE_CHARACTER = "22P05"
_CHARACTER_NOT_IN_REPERTOIRE = "22021"
_INVALID_TEXT_REPRESENTATION = "22P02"
_NUMERIC_VALUE_OUT_OF_RANGE = "22003"
_DATETIME_FIELD_OVERFLOW = "22008"
_INVALID_DATETIME_FORMAT = "22007"
_BAD_INPUT: dict[str | None, str] = {
    _UNTRANSLATABLE_CHARACTER: "leave NUL characters out of names and payloads",
    _CHARACTER_NOT_IN_REPERTOIRE: "pass valid Unicode without NUL characters",
    _INVALID_TEXT_REPRESENTATION: "pass valid JSON",
    _NUMERIC_VALUE_OUT_OF_RANGE: "pass smaller numbers",
    _DATETIME_FIELD_OVERFLOW: "pass a moment that PostgreSQL can store",
    _INVALID_DATETIME_FORMAT: "pass moments in ISO 8601",
}
INSUFFICIENT_PRIVILEGE = "42501"
_GRANTS = (
    "grant its role what it lacks: txqueue_worker for nodes, txqueue_enqueue for applications,"
    " txqueue_read to look; or the right on the application's own table"
)
_UNDEFINED_TABLE = "42P01"
_UNDEFINED_FUNCTION = "42883"
_INVALID_SCHEMA_NAME = "3F000"
_NO_SCHEMA = {_UNDEFINED_TABLE, _UNDEFINED_FUNCTION, _INVALID_SCHEMA_NAME}
_DISK_FULL = "53100"
_OUT_OF_MEMORY = "53200"
TOO_MANY_CONNECTIONS = "53300"
_REMEDIES = {
    _DISK_FULL: "free space on the disks of the database's server",
    _OUT_OF_MEMORY: "lower work_mem or max_connections of the database's server, or add memory",
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
