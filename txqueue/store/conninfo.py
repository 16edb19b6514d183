"""The hosts of a DSN, tried one after the other, and how the loss of one is noticed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from psycopg2.extensions import make_dsn, parse_dsn

__all__ = ["ConnectAttempt", "attempts", "redirected", "socket_of"]

# Seconds that a host has to answer; with several, one that is gone must not keep us from the next.
PATIENCE, PATIENCE_OF_SEVERAL = 10.0, 3.0
# The kernel's own patience is hours for a silent connection, and 15 minutes for one that swallows.
NOTICING = {
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
# In these, libpq must see all hosts to choose one.
_CHOOSES_AMONG_ALL = frozenset({"prefer-standby"})


@frozen
class ConnectAttempt:
    """One attempt to connect: what the driver is told, and how long it may take."""

    parameters: dict[str, Any] = field(repr=False)
    patience: float


def attempts(dsn: str, environ: Mapping[str, str] = os.environ) -> list[ConnectAttempt]:
    """Return the attempts to make, in order, until one succeeds.

    libpq goes on to the next host only if the one before answers, or refuses: its own patience,
    ``connect_timeout``, does not hold for a connection that is made asynchronously.

    Args:
        dsn: A libpq URI or keyword string, perhaps with several hosts.
        environ: Where libpq looks for what the DSN does not say.

    Raises:
        psycopg2.ProgrammingError: When the DSN is not valid.
    """
    given = parse_dsn(dsn)
    hosts = _hosts(given, environ)
    patience = PATIENCE if len(hosts) < 2 else PATIENCE_OF_SEVERAL
    told = given.get("connect_timeout") or environ.get("PGCONNECT_TIMEOUT")
    if told is not None and _is_number(told):
        patience = float(told)
    return [ConnectAttempt({**NOTICING, **given, **host}, patience) for host in hosts]


def socket_of(dsn: str) -> Path | None:
    """Return the unix socket that a DSN names; None if it names none."""
    given = parse_dsn(dsn)
    folder = given.get("host", "")
    return Path(folder) / f".s.PGSQL.{given.get('port', 5432)}" if folder[:1] == "/" else None


def redirected(dsn: str, socket: Path) -> str:
    """Return the same DSN for what listens at another unix socket."""
    port = socket.name.rpartition(".")[2]
    return str(make_dsn(dsn, host=str(socket.parent), port=port))


def _hosts(given: Mapping[str, str], environ: Mapping[str, str]) -> list[dict[str, str]]:
    """What to say instead of several hosts, for each of them; nothing instead of a single one."""
    lists = {
        key: value.split(",")
        for key, variable in (("host", "PGHOST"), ("hostaddr", "PGHOSTADDR"), ("port", "PGPORT"))
        if (value := given.get(key) or environ.get(variable))
    }
    many = max((len(lists[key]) for key in ("host", "hostaddr") if key in lists), default=1)
    if many == 1 or given.get("target_session_attrs") in _CHOOSES_AMONG_ALL:
        return [{}]
    if any(len(values) not in (1, many) for values in lists.values()):
        # libpq says what is wrong.
        return [{}]
    return [
        {key: values[each % len(values)] for key, values in lists.items()} for each in range(many)
    ]


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False
