"""Converts the driver's errors into txqueue's, and tells which statements the database refuses;
reads timestamps that Python cannot represent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import psycopg2
from attrs import define, field, frozen
from psycopg2 import errorcodes
from psycopg2.extensions import PYDATETIMETZ, new_type, register_type

from txqueue.errors import DatabaseUnavailable, NotPermitted, Refused, SchemaMismatch, TxqueueError
from txqueue.model.sqlstates import INSUFFICIENT_PRIVILEGE, is_lost, outlasts_retries, refusal_of
from txqueue.store.driver.shared_errors import SIGNS_OF_A_STANDBY, not_primary, unavailable

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


def translation(error: BaseException) -> BaseException:
    """Return the error to raise instead of a driver's error; return other errors unchanged."""
    if isinstance(error, psycopg2.Error):
        return _of_the_server(error)
    is_closed = _is_of(error, "twisted.internet.error", "ConnectionDone", "ConnectionLost")
    return _unavailable(error) if is_closed else error


def lost(error: BaseException) -> BaseException:
    """Return the error to raise instead of a driver's error for a statement of the application.

    Only a lost connection becomes an error of txqueue; for its own statements the application gets
    psycopg2's errors.
    """
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


FORGOTTEN_AFTER = 15.0
"""Seconds after which a refusal no longer counts, unless the statement is refused again."""
COUNTS_AFTER = 2.0
"""Seconds for which a statement must fail, as one row may be the cause of a single failure; the
lack of a right counts at once.
"""


@frozen
class ServerAnswer:
    """What the server answered to a statement.

    Attributes:
        said: Its message.
        sqlstate: Its code.
    """

    said: str
    sqlstate: str


@define
class _Failing:
    """A statement that fails again and again."""

    since: float
    last: float
    refusal: ServerAnswer


@define
class RefusedStatements:
    """The refused statements of a node, each until it succeeds.

    Services try refused statements again within five seconds; one that is not has become needless.

    Args:
        now: Returns the time by the monotonic clock.
    """

    _now: Callable[[], float] = time.monotonic
    _failing: dict[str, _Failing] = field(factory=dict, init=False)

    @contextmanager
    def noted(self, statement: str) -> Iterator[None]:
        """Note whether the statement that runs in this block is refused."""
        try:
            yield
        except Exception as error:
            answer = sent_by_server(error)
            if answer is not None and (outlasts_retries(answer[0]) or is_too_slow(error)):
                self._failed(statement, ServerAnswer(answer[1], answer[0]))
            raise
        self._failing.pop(statement, None)

    def refuses(self, statement: str) -> bool:
        """Tell whether this statement was refused when it was last run."""
        failing = self._failing.get(statement)
        return failing is not None and self._counts(failing)

    @property
    def first(self) -> ServerAnswer | None:
        """What the server answered to the statement that was refused first; None if none is."""
        refused = (each.refusal for each in self._failing.values() if self._counts(each))
        return next(refused, None)

    def _failed(self, statement: str, refusal: ServerAnswer) -> None:
        now = self._now()
        failing = self._failing.get(statement)
        if failing is None or self._is_old(failing):
            self._failing[statement] = _Failing(now, now, refusal)
        else:
            failing.last, failing.refusal = now, refusal

    def _is_old(self, failing: _Failing) -> bool:
        return failing.last <= self._now() - FORGOTTEN_AFTER

    def _counts(self, failing: _Failing) -> bool:
        lacks_right = failing.refusal.sqlstate == INSUFFICIENT_PRIVILEGE
        lasts = lacks_right or failing.last - failing.since >= COUNTS_AFTER
        return lasts and not self._is_old(failing)


EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime.max.replace(tzinfo=UTC)

_TIMESTAMPTZ_OID: Final = 1184


def read_any_moment(driver: Any) -> None:
    """Make a connection read a timestamp beyond Python's range as the nearest one within it."""
    register_type(_TIMESTAMPTZ, driver)


def _cast(text: Any, cursor: Any) -> datetime | None:
    try:
        moment: datetime | None = PYDATETIMETZ(text, cursor)
    except (ValueError, OverflowError, psycopg2.Error):
        return EARLIEST if text.endswith("BC") or text == "-infinity" else LATEST
    if moment is not None and moment.tzinfo is None:
        # Infinity has no time zone, so it could not be compared.
        return moment.replace(tzinfo=UTC)
    return moment


_TIMESTAMPTZ: Final = new_type((_TIMESTAMPTZ_OID,), "TIMESTAMPTZ", _cast)
