"""The settings of a dashboard, and the databases that it shows."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from txqueue.errors import ConfigurationError
from txqueue.store.driver.hosts import attempts, database_name, location
from txqueue.store.schema.files import checked_name
from txqueue.system.descriptors import read_private
from txqueue.system.settings import Settings
from txqueue.web.logins import IdentityProxy, User, parsed_proxy, read_users
from txqueue.wire.endpoints import Endpoint

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


@frozen
class DashboardSettings:
    """The settings of a dashboard.

    Attributes:
        databases: The databases that it shows; the only one may have no name.
        endpoint: Where it listens.
        users: The users by name; None if none are configured, so that all of this host may look.
        key: A secret with which one operator logs in; None for none.
        proxy: The proxy that identifies users; None for none.
        hosts: Host names that it answers to, besides loopback's and the endpoint's.
        base: Its base path, without a slash at its end.
        title: The name of the installation.
    """

    databases: tuple[ShownDatabase, ...]
    endpoint: Endpoint
    users: Mapping[str, User] | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    proxy: IdentityProxy | None = None
    hosts: frozenset[str] = frozenset()
    base: str = ""
    title: str = "txqueue"

    @property
    def answered_hosts(self) -> frozenset[str] | None:
        """The host names that it answers to besides loopback's; None for any."""
        # To a socket only this account can connect, and a proxy passes on the host of browsers.
        return None if self.endpoint.path is not None else self.hosts | {self.endpoint.address}


def dashboard_settings(
    settings: Settings, databases: tuple[ShownDatabase, ...], endpoint: Endpoint
) -> DashboardSettings:
    """Return the settings of a dashboard.

    Args:
        settings: ``web_users``, ``web_proxy``, ``web_hosts``, ``web_base`` and ``web_title``.
        databases: The databases.
        endpoint: Where the dashboard listens.

    Raises:
        ConfigurationError: When a setting is not valid, or Jinja2 is not installed.
    """
    if find_spec("jinja2") is None:
        raise ConfigurationError("the dashboard needs Jinja2", "run: pip install 'txqueue[web]'")
    users, proxy = settings.get("web_users"), settings.get("web_proxy")
    return DashboardSettings(
        databases=databases,
        endpoint=endpoint,
        users=None if users is None else read_users(Path(str(users))),
        key=settings.get("web_key"),
        proxy=None if proxy is None else parsed_proxy(str(proxy)),
        hosts=frozenset(settings.names("web_hosts", [])),
        base=_base(str(settings.get("web_base", ""))),
        title=str(settings.get("web_title", "txqueue")),
    )


def _base(text: str) -> str:
    """Return a base path without a slash at its end."""
    base = text.rstrip("/")
    if base and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", base):
        raise ConfigurationError(
            f"{text!r} is not a base path", "write it like /queue: letters, digits, . _ ~ -"
        )
    return base
