"""Which queue a session sees: an identity that is equal for all sessions of the same queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

__all__ = ["IDENTITY", "QueueIdentity"]

IDENTITY = (
    "select {schema}.identity()::text as identity, current_database() as database,"
    " host(inet_server_addr()) as host, inet_server_port() as port"
)
"""The query of a queue's identity; see `QueueIdentity.of_row`."""


@frozen
class QueueIdentity:
    """Which queue a session sees.

    Attributes:
        identity: The queue's identity; equal for all sessions of the same queue, whatever its DSN.
        place: The database, its server and the schema, for people.
    """

    identity: str
    place: str

    @classmethod
    def of_row(cls, row: Mapping[str, Any], schema: str) -> QueueIdentity:
        """Return what a row of `IDENTITY` says."""
        server = f"{row['host']}:{row['port']}" if row["host"] else "a unix socket"
        place = f"the database {row['database']} at {server}, schema {schema}"
        return cls(row["identity"], place)
