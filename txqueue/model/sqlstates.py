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

__all__ = ["IN_FAILED_TRANSACTION", "refusal_of"]

IN_FAILED_TRANSACTION = "25P02"
# Raised by refuse(), refuse_full_queue(), refuse_duplicate() and complete_one() of the schema.
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
_INSUFFICIENT_PRIVILEGE = "42501"
_GRANTS = (
    "grant its role what it lacks: txqueue_worker for nodes, txqueue_enqueue for applications,"
    " txqueue_read to look; or the right on the application's own table"
)
_UNDEFINED_TABLE = "42P01"
_UNDEFINED_FUNCTION = "42883"
_INVALID_SCHEMA_NAME = "3F000"
_NO_SCHEMA = {_UNDEFINED_TABLE, _UNDEFINED_FUNCTION, _INVALID_SCHEMA_NAME}


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
    if sqlstate == _INSUFFICIENT_PRIVILEGE:
        return NotPermitted(message, _GRANTS)
    if sqlstate in _NO_SCHEMA:
        return SchemaMismatch(message, "run: txqueue migrate")
    return None
