"""Which queue a database has, and whether this code can work with its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from txqueue.errors import SchemaMismatch
from txqueue.store.schema.files import newest_migration

__all__ = [
    "FIND",
    "IDENTITY",
    "QueueIdentity",
    "SchemaVersion",
    "check_version",
    "latest_version",
]

FIND: Final = """
    select coalesce(max(number), 0) as number,
           coalesce(max(coalesce(serves, number)), 0) as serves
      from {schema}.migration"""
"""Queries a schema's version."""


@frozen
class SchemaVersion:
    """A schema's version, and the code that it serves.

    Attributes:
        number: The number of the last migration.
        serves: The oldest version whose code works with the schema.
    """

    number: int
    serves: int


def latest_version() -> int:
    """Return the schema version that this code is made for."""
    return newest_migration()


def check_version(version: SchemaVersion | None, schema: str) -> None:
    """Compare a schema's version (None if it is missing) with the one this code is made for.

    A newer version is accepted if it still serves this code.

    Raises:
        SchemaMismatch: When this code cannot work with the schema.
    """
    if version is None:
        raise SchemaMismatch(
            f"the schema {schema!r} is not in this database", "run: txqueue migrate"
        )
    latest = latest_version()
    if version.serves > latest:
        raise SchemaMismatch(
            f"the schema {schema!r} has version {version.number}, newer than the {latest} this code"
            f" knows, and serves none older than {version.serves}",
            "install the newer txqueue",
        )
    if version.number < latest:
        raise SchemaMismatch(
            f"the schema {schema!r} has version {version.number}, older than the {latest} this code"
            " needs",
            "run: txqueue migrate",
        )


IDENTITY = (
    "select {schema}.identity()::text as identity, current_database() as database,"
    " host(inet_server_addr()) as host, current_setting('port') as port,"
    " case when pg_has_role(current_user, 'pg_read_all_settings', 'usage')"
    " then current_setting('unix_socket_directories') end as folders"
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
        place = f"the database {row['database']} at {_server(row)}, schema {schema}"
        return cls(row["identity"], place)


def _server(row: Mapping[str, Any]) -> str:
    """Return the address of a server; which folders it has, not every role may read."""
    if row["host"]:
        return f"{row['host']}:{row['port']}"
    folders = f" in {row['folders']}" if row["folders"] else ""
    return f"a unix socket{folders}, port {row['port']}"
