"""Errors for what a database or an application has done, whatever the driver; and for a DSN that
leads to no server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from txqueue.errors import ConfigurationError, DatabaseUnavailable, Refused, TransactionMisused
from txqueue.model.humanize import meant
from txqueue.model.sqlstates import TOO_MANY_CONNECTIONS, is_exhausted, remedy_of
from txqueue.system.settings import ConfiguredDsn

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


def of_all(failures: Sequence[BaseException]) -> BaseException:
    """Return the error for an attempt at several hosts or addresses, with the reason of each.

    Args:
        failures: The errors, at least one, in the order of the attempts.
    """
    last, whats = failures[-1], [getattr(error, "what", str(error)) for error in failures]
    if len(set(whats)) == 1 or not isinstance(last, DatabaseUnavailable):
        return last
    said, _, _ = whats[0].partition(": ")
    others = dict.fromkeys(what.removeprefix(f"{said}: ") for what in whats[1:])
    return DatabaseUnavailable("; then: ".join([whats[0], *others]), last.remedy)


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


# libpq's variables by which a program that gives no DSN names a server.
_OF_LIBPQ: Final = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE", "PGUSER")
_KNOWN: Final = (
    *("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service"),
    *("application_name", "connect_timeout", "client_encoding", "options", "sslmode", "sslcert"),
    *("sslkey", "sslrootcert", "target_session_attrs", "gssencmode", "channel_binding"),
)
_SCHEME: Final = re.compile(r"([A-Za-z][\w.+-]*):/")
# libpq quotes signs, which may be shown, and parts of the DSN, which may be of a password.
_WITHOUT_PARTS: Final = re.compile(r'(?:[^"]|"[=\]:/]")*')
_UNKNOWN_OPTION: Final = re.compile(r'invalid (?:connection option|URI query parameter:) "(\w+)"')
_FORMS: Final = "postgresql://USER@HOST/NAME or host=HOST dbname=NAME user=USER"


def invalid_dsn(dsn: object, said: str = "") -> ConfigurationError:
    """Return the error for a DSN that libpq cannot read; it shows no part that may be secret.

    Args:
        dsn: What was given.
        said: The message of libpq, as the driver has it.
    """
    source = getattr(dsn, "source", "")
    reason = dsn_fault(dsn, said) if isinstance(dsn, str) else f"it is a {type(dsn).__name__}"
    correct = f"correct {source}: write" if source else "write"
    return ConfigurationError(f"the DSN is not valid: {reason}", f"{correct} {_FORMS}")


def dsn_fault(dsn: str, said: str) -> str:
    """Return why libpq cannot read a DSN, without any part of it that may be secret."""
    if "\0" in dsn:
        return "it has a NUL character, behind which libpq reads nothing"
    scheme = _SCHEME.match(dsn.strip())
    if scheme is not None and scheme[1] not in ("postgres", "postgresql"):
        return f"it begins with {scheme[1]}: instead of postgresql:"
    text = " ".join(said.removeprefix("invalid dsn:").split())
    if (unknown := _UNKNOWN_OPTION.search(text)) is not None:
        hint = meant(unknown[1], _KNOWN)
        return f"it has an option that libpq does not know{hint and f', {hint}'}"
    matched = _WITHOUT_PARTS.match(text)
    reason = (matched[0] if matched else "").rstrip(": ")
    if reason.startswith('missing "=" after'):
        return "a part of it has no \"=\": values with a space need quotes, as in password='a b'"
    if "percent-encoded" in reason:
        return f"{reason}: write % as %25"
    return reason or "libpq cannot read it"


@contextmanager
def naming_source(dsn: str, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Have the error of a server that cannot be reached say which setting names the server."""
    try:
        yield
    except DatabaseUnavailable as error:
        if error.remedy == CHECK_DSN:
            error.remedy = _remedy(dsn, environ)
            error.args = (error.what, error.remedy)
        raise


def source_of(dsn: ConfiguredDsn, environ: Mapping[str, str] = os.environ) -> str:
    """Return which setting, or which variables of libpq, name the database; empty if none do."""
    return dsn.source or ", ".join(name for name in _OF_LIBPQ if environ.get(name))


def _remedy(dsn: str, environ: Mapping[str, str]) -> str:
    if not isinstance(dsn, ConfiguredDsn):
        return CHECK_DSN
    if dsn.source:
        return f"check the DSN ({dsn.source}) and that the server runs"
    if used := source_of(dsn, environ):
        return f"no DSN is given: check {used} and that the server runs"
    return (
        "no DSN is given, so libpq tries this host: name the database by --dsn, TXQUEUE_DSN or dsn"
        " in txqueue.toml"
    )
