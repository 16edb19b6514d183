"""The unix sockets that DSNs name, to put a proxy in front of a server."""

from __future__ import annotations

from pathlib import Path

from psycopg2.extensions import make_dsn, parse_dsn

__all__ = ["redirected", "socket_of"]


def socket_of(dsn: str) -> Path | None:
    """Return the unix socket that a DSN names; None if it names none."""
    parameters = parse_dsn(dsn)
    folder = parameters.get("host", "")
    return Path(folder) / f".s.PGSQL.{parameters.get('port', 5432)}" if folder[:1] == "/" else None


def redirected(dsn: str, socket: Path) -> str:
    """Return a DSN that differs from the given one only in the server's unix socket."""
    port = socket.name.rpartition(".")[2]
    return str(make_dsn(dsn, host=str(socket.parent), port=port))
