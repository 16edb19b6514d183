"""Errors for a DSN that libpq cannot read, or that leads to no server: they name its setting."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from txqueue.errors import ConfigurationError, DatabaseUnavailable
from txqueue.model.humanize import meant
from txqueue.store.driver.shared_errors import CHECK_DSN
from txqueue.system.settings import ConfiguredDsn

__all__ = ["dsn_fault", "invalid_dsn", "naming_source"]

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


def _remedy(dsn: str, environ: Mapping[str, str]) -> str:
    if not isinstance(dsn, ConfiguredDsn):
        return CHECK_DSN
    if dsn.source:
        return f"check the DSN ({dsn.source}) and that the server runs"
    if used := [name for name in _OF_LIBPQ if environ.get(name)]:
        return f"no DSN is given: check {', '.join(used)} and that the server runs"
    return (
        "no DSN is given, so libpq tries this host: name the database by --dsn, TXQUEUE_DSN or dsn"
        " in txqueue.toml"
    )
