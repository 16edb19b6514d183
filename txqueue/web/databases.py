"""The databases that a dashboard shows: from a file, or those of a node."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from txqueue.errors import ConfigurationError
from txqueue.store.driver.conninfo import attempts, database_name, location
from txqueue.store.schema.files import checked_name
from txqueue.system.private_files import read_private

__all__ = ["ShownDatabase", "database_path", "database_place", "named_databases", "read_databases"]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_EXAMPLE: Final = 'write a line for each database: orders = "postgresql://..."'


@frozen
class ShownDatabase:
    """A database that a dashboard shows.

    Attributes:
        dsn: A libpq URI or keyword string.
        schema: The name of the schema.
        name: Its name in the dashboard; empty for the only one, whose pages need none.
    """

    dsn: str = field(repr=False)
    schema: str = "txqueue"
    name: str = ""


def database_place(database: ShownDatabase) -> str:
    """Return a short text that differs between places of databases, without their addresses."""
    address = f"{location(database.dsn)} {database.schema}"
    return hashlib.sha256(address.encode()).hexdigest()[:16]


def database_path(name: str) -> str:
    """Return the path of a database's pages below the dashboard's base path."""
    return f"/databases/{name}" if name else ""


def read_databases(path: Path, schema: str) -> tuple[ShownDatabase, ...]:
    """Read the file of databases: TOML, with a DSN or a table for each name.

    Args:
        path: The file.
        schema: The name of the schema of those that name none.

    Raises:
        ConfigurationError: When the file cannot be read, others may read it, or a database is not
            valid.
    """
    try:
        entries = tomllib.loads(read_private(path, "the databases", "--databases"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}", _EXAMPLE) from None
    if not entries:
        raise ConfigurationError(f"{path} has no database", _EXAMPLE)
    try:
        return tuple(_database(name, entry, schema) for name, entry in entries.items())
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error.what}", error.remedy) from None


def named_databases(dsns: Sequence[str], schema: str) -> tuple[ShownDatabase, ...]:
    """Return the databases of a node; several are named as their DSNs name them."""
    if len(dsns) == 1:
        return (ShownDatabase(dsns[0], schema),)
    databases: dict[str, ShownDatabase] = {}
    for dsn in dsns:
        name = _unused(_plain_name(database_name(dsn)), databases)
        databases[name] = ShownDatabase(dsn, schema, name)
    return tuple(databases.values())


def _database(name: str, entry: Any, schema: str) -> ShownDatabase:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not a name for a database",
            "use lower-case letters, digits, - and _, at most 40, the first a letter or digit",
        )
    table = entry if isinstance(entry, dict) else {"dsn": entry}
    if unknown_keys := sorted(table.keys() - {"dsn", "schema"}):
        raise ConfigurationError(
            f"{name} has {unknown_keys[0]!r}, which is not a setting",
            "give dsn, and perhaps schema",
        )
    dsn, schema_name = table.get("dsn"), table.get("schema", schema)
    if not isinstance(dsn, str) or not dsn.strip():
        raise ConfigurationError(f"{name} has no DSN", f'give it as a text: {name} = "DSN"')
    try:
        attempts(dsn)
        return ShownDatabase(dsn, checked_name(str(schema_name)), name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error.what}", error.remedy) from None


def _plain_name(text: str) -> str:
    """Return a database's name as it may stand in an address."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")[:30] or "database"


def _unused(name: str, used_names: Any) -> str:
    number, candidate = 1, name
    while candidate in used_names:
        number += 1
        candidate = f"{name}-{number}"
    return candidate
