"""Converts the driver's errors into txqueue's."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
from psycopg2 import errorcodes

from txqueue.errors import (
    DatabaseUnavailable,
    NotPermitted,
    Refused,
    SchemaMismatch,
    TxqueueError,
)
from txqueue.model.sqlstates import INSUFFICIENT_PRIVILEGE, is_lost, refusal_of
from txqueue.store.driver.shared_errors import (
    SIGNS_OF_A_STANDBY,
    not_primary,
    unavailable,
)

__all__ = [
    "Unanswered",
    "answered",
    "complaint",
    "demoted",
    "is_damage",
    "is_locked",
    "is_of_a_row",
    "is_passing",
    "is_too_slow",
    "lost",
    "sent_by_server",
    "translated",
    "translation",
]

# What is said of values that cannot be read; the second, where a file or block is lost.
_DAMAGE = {errorcodes.CLASS_INTERNAL_ERROR, errorcodes.CLASS_SYSTEM_ERROR}
_OF_A_ROW = _DAMAGE | {
    errorcodes.CLASS_DATA_EXCEPTION,
    errorcodes.CLASS_PROGRAM_LIMIT_EXCEEDED,
}


class Unanswered(Refused):
    """The server has given up a statement that took too long; it may answer the next one."""


def _is_of(error: BaseException, module: str, *names: str) -> bool:
    """Whether an error has one of the classes of a module; it has none if that is not imported.

    So a command that uses no reactor need not import Twisted.
    """
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(error, tuple(getattr(loaded, name) for name in names))


def _rollback_error(error: BaseException) -> BaseException | None:
    """Return the error because of which a transaction was to be rolled back, which failed too."""
    if not _is_of(error, "txpostgres.txpostgres", "RollbackFailed"):
        return None
    cause: BaseException = error.originalFailure.value  # type: ignore[attr-defined]
    return cause


def translation(error: BaseException) -> BaseException:
    """Return the error to raise instead of a driver's error; return other errors unchanged."""
    if (cause := _rollback_error(error)) is not None:
        return translation(cause)
    if isinstance(error, psycopg2.Error):
        return _of_the_server(error)
    is_closed = _is_of(error, "twisted.internet.error", "ConnectionDone", "ConnectionLost")
    return _unavailable(error) if is_closed else error


def lost(error: BaseException) -> BaseException:
    """Return the error to raise instead of a driver's error for a statement of the application.

    Only a lost connection becomes an error of txqueue; for its own statements the application gets
    psycopg2's errors.
    """
    if (cause := _rollback_error(error)) is not None:
        return lost(cause)
    if isinstance(error, psycopg2.Error) and not _is_lost(error):
        return error
    return translation(error)


def _of_the_server(error: psycopg2.Error) -> BaseException:
    code = error.pgcode
    if (refusal := refusal_of(code, _primary(error), error.diag.message_hint)) is not None:
        return refusal
    if code == errorcodes.READ_ONLY_SQL_TRANSACTION:
        return not_primary(_primary(error))
    return _unavailable(error) if _is_lost(error) else error


def _is_lost(error: psycopg2.Error) -> bool:
    """Tell whether the connection or the server was lost, rather than a statement failed."""
    is_operational = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError)
    return is_lost(error.pgcode, is_operational=is_operational)


def is_passing(error: BaseException) -> bool:
    """Tell whether the same statement may succeed later, as its data did not cause the error."""
    if isinstance(error, DatabaseUnavailable | SchemaMismatch | NotPermitted):
        return True
    if not isinstance(error, psycopg2.Error):
        return _is_of(error, "twisted.internet.defer", "CancelledError")
    is_read_only = error.pgcode == errorcodes.READ_ONLY_SQL_TRANSACTION
    is_too_large = (error.pgcode or "").startswith(errorcodes.CLASS_PROGRAM_LIMIT_EXCEEDED)
    return is_read_only or (isinstance(error, psycopg2.OperationalError) and not is_too_large)


def is_too_slow(error: BaseException) -> bool:
    """Tell whether the server has given up a statement, as it took longer than it may."""
    return isinstance(error, psycopg2.Error) and error.pgcode == errorcodes.QUERY_CANCELED


def is_locked(error: BaseException) -> bool:
    """Tell whether a statement has waited too long for a lock of another session."""
    return isinstance(error, psycopg2.errors.LockNotAvailable)


def is_of_a_row(error: BaseException) -> bool:
    """Tell whether one row may have caused the error: damage, a size, or a text."""
    code = error.pgcode if isinstance(error, psycopg2.Error) else None
    is_refused = isinstance(error, Refused) and not isinstance(error, NotPermitted)
    return is_refused or (code or "")[:2] in _OF_A_ROW


def is_damage(error: BaseException) -> bool:
    """Tell whether a damaged row may have caused the error."""
    code = error.pgcode if isinstance(error, psycopg2.Error) else None
    return (code or "")[:2] in _DAMAGE


def demoted(error: BaseException, driver: Any) -> BaseException:
    """Return the error to raise for a failed statement if its server is no longer a primary.

    Args:
        error: The statement's error; returned unchanged if it has another cause, such as a
            read-only transaction.
        driver: The connection, with the parameters that the server reports.
    """
    if not isinstance(error, psycopg2.errors.ReadOnlySqlTransaction):
        return error
    if not any(driver.get_parameter_status(sign) == "on" for sign in SIGNS_OF_A_STANDBY):
        return error
    return not_primary(_primary(error))


def _primary(error: psycopg2.Error) -> str:
    """Return the server's message without DETAIL and CONTEXT, which may show a payload."""
    return error.diag.message_primary or type(error).__name__


def sent_by_server(error: BaseException) -> tuple[str, str] | None:
    """Return the SQLSTATE and message that the server sent, also if another error was raised."""
    if isinstance(error, TxqueueError) and isinstance(error.__context__, psycopg2.Error):
        error = error.__context__
    if isinstance(error, psycopg2.Error):
        return None if error.pgcode is None else (error.pgcode, _primary(error))
    return (INSUFFICIENT_PRIVILEGE, error.what) if isinstance(error, NotPermitted) else None


def _said(error: BaseException) -> str:
    if isinstance(error, psycopg2.Error) and error.pgcode is not None:
        return _primary(error)
    return str(error)


def _unavailable(error: BaseException) -> DatabaseUnavailable:
    code = error.pgcode if isinstance(error, psycopg2.Error) else None
    return unavailable(code, _said(error) or type(error).__name__)


def complaint(error: BaseException) -> str | None:
    """Return one line that explains an error; None for an unexpected one, which needs a traceback.

    Args:
        error: The error of a call of the store.
    """
    if isinstance(error, psycopg2.errors.LockNotAvailable):
        return f"{_primary(error)}; another session holds a lock: see pg_locks"
    if isinstance(error, psycopg2.Error) and is_too_slow(error):
        return (
            f"the server gave up a statement ({_primary(error)}): it is busy, a lock is held, or"
            " there is too much to read: see pg_stat_activity"
        )
    if isinstance(error, TxqueueError):
        return str(error)
    return _primary(error) if is_passing(error) and isinstance(error, psycopg2.Error) else None


@contextmanager
def translated() -> Iterator[None]:
    """Convert the driver's errors into txqueue's inside the block."""
    try:
        yield
    except Exception as error:
        other = translation(error)
        if other is error:
            raise
        raise other from None


@contextmanager
def answered(
    patience: float, remedy: str = "try again; if it stays slow, ask for less: use filters"
) -> Iterator[None]:
    """Convert the errors of operators' queries and acts, and give a timeout its own message.

    Args:
        patience: Seconds after which the server gives up a statement.
        remedy: The remedy for a timeout.
    """
    try:
        with translated():
            yield
    except psycopg2.errors.QueryCanceled:
        text = f"the database did not answer within {patience:g} s"
        raise Unanswered(text, remedy) from None
    except psycopg2.errors.LockNotAvailable:
        raise Refused(
            "an open transaction of another session has locked what this needs; nothing has"
            " changed",
            "end that transaction, or try again once it has ended: txqueue explain names the"
            " session that has locked a job; pg_locks has all of them",
        ) from None
    except psycopg2.Error as error:
        error_text = error.diag.message_primary or " ".join(str(error).split())
        raise Refused(
            f"the database refuses: {error_text}", error.diag.message_hint or ""
        ) from None
