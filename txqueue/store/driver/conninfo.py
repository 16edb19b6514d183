"""The hosts of a DSN, tried in turn, and the settings that detect a lost connection."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve, field, frozen
from psycopg2 import ProgrammingError
from psycopg2.extensions import make_dsn, parse_dsn

from txqueue.store.driver.dsn_errors import invalid_dsn
from txqueue.store.driver.redaction import redacted
from txqueue.store.driver.session_bounds import (
    CONNECTS_WITHIN,
    CONNECTS_WITHIN_OF_SEVERAL,
    NOTICING,
)

__all__ = [
    "ConnectAttempt",
    "attempts",
    "database_name",
    "dsn_of_parameters",
    "location",
]

_LOCATING = (
    ("service", "PGSERVICE"),
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
)
# libpq would need all hosts at once to prefer a standby: it tries each as one, then each as any.
_PREFERRING: Final = {
    "prefer-standby": [{"target_session_attrs": "standby"}, {"target_session_attrs": "any"}]
}


@frozen
class ConnectAttempt:
    """One attempt to connect: the driver's parameters and the time limit in seconds.

    Attributes:
        is_told: Whether the time limit is the DSN's own.
    """

    parameters: dict[str, Any] = field(repr=False)
    patience: float
    is_told: bool = False

    def at_each(self, addresses: Sequence[str]) -> list[ConnectAttempt]:
        """Return the attempts to connect to each address of the host, each with its own time.

        The host's name stays in the parameters, because TLS compares it with the certificate.
        """
        soon = self.patience if self.is_told else min(self.patience, CONNECTS_WITHIN_OF_SEVERAL)
        patience = [soon] * (len(addresses) - 1) + [self.patience]
        return [
            evolve(self, parameters={**self.parameters, "hostaddr": address}, patience=seconds)
            for address, seconds in zip(addresses, patience, strict=True)
        ]


def attempts(dsn: str, environ: Mapping[str, str] = os.environ) -> list[ConnectAttempt]:
    """Return the attempts to connect, one per host, to be made in order until one succeeds.

    libpq itself would try the next host only after an answer or refusal of the one before, as it
    ignores ``connect_timeout`` for asynchronous connections.

    Args:
        dsn: A libpq URI or keyword string, perhaps with several hosts.
        environ: The environment, for libpq's variables.

    Raises:
        ConfigurationError: When the DSN is not valid.
    """
    parameters = _parsed(dsn)
    hosts = _hosts(parameters, environ)
    own_patience = _told_patience(dsn, environ)
    patience = own_patience or (CONNECTS_WITHIN_OF_SEVERAL if len(hosts) > 1 else CONNECTS_WITHIN)
    session_attrs = parameters.get("target_session_attrs") or environ.get(
        "PGTARGETSESSIONATTRS", ""
    )
    return [
        ConnectAttempt(
            {**NOTICING, **parameters, **host, **manner}, patience, own_patience is not None
        )
        for manner in _PREFERRING.get(session_attrs, [{}])
        for host in hosts
    ]


def _parsed(dsn: str) -> dict[str, Any]:
    if "\0" in str(dsn):
        raise invalid_dsn(dsn)
    try:
        parameters: dict[str, Any] = parse_dsn(dsn)
    except (ProgrammingError, TypeError) as error:
        raise invalid_dsn(dsn, str(error)) from None
    return parameters


def database_name(dsn: str) -> str:
    """Return the name of the database in a DSN, without secrets; empty if it names none."""
    return redacted(str(_parsed(dsn).get("dbname", "")), dsn)


def location(dsn: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the parameters that say where a database is, of a DSN or libpq's variables."""
    parameters = _parsed(dsn)
    located = {name: parameters.get(name) or environ.get(variable) for name, variable in _LOCATING}
    return str(make_dsn(**{name: value for name, value in located.items() if value}))


def dsn_of_parameters(parameters: Mapping[str, Any]) -> str:
    """Return the DSN of a driver's parameters, without those that libpq does not have."""
    return str(
        make_dsn(**{name: each for name, each in parameters.items() if _is_known(name, each)})
    )


def _is_known(name: str, value: Any) -> bool:
    if type(value) not in (str, int):
        return False
    try:
        make_dsn(**{name: value})
    except ProgrammingError:
        return False
    return True


def _hosts(parameters: Mapping[str, str], environ: Mapping[str, str]) -> list[dict[str, str]]:
    """Return for each host of a list the parameters that name it alone, in the order of the list.

    The result is ``[{}]`` for a single host, or for a list that is not valid.
    """
    lists = {
        key: value.split(",")
        for key, variable in (("host", "PGHOST"), ("hostaddr", "PGHOSTADDR"), ("port", "PGPORT"))
        if (value := parameters.get(key) or environ.get(variable))
    }
    many = max((len(lists[key]) for key in ("host", "hostaddr") if key in lists), default=1)
    if many == 1 or any(len(values) not in (1, many) for values in lists.values()):
        # Of a wrong list, libpq reports the error.
        return [{}]
    return [
        {key: values[index % len(values)] for key, values in lists.items()} for index in range(many)
    ]


def _told_patience(dsn: str, environ: Mapping[str, str]) -> float | None:
    """Return the time limit of a DSN, or of the environment; None without one."""
    seconds = _parsed(dsn).get("connect_timeout") or environ.get("PGCONNECT_TIMEOUT")
    return float(seconds) if seconds is not None and _is_number(seconds) else None


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False
