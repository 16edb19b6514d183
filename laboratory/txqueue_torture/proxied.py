"""Connections to the database through a fault-injecting proxy."""

from __future__ import annotations

from txqueue_torture.environment import ScenarioFailed, Testbed
from txqueue_torture.proxy import Address, Proxy
from txqueue_torture.sockets import redirected, socket_of

__all__ = ["proxied"]


def proxied(testbed: Testbed, name: str, *, speaks_postgres: bool = True) -> tuple[Proxy, str]:
    """Start a proxy in front of the testbed's database.

    Args:
        testbed: The scenario's testbed.
        name: A short name for the proxy's socket.
        speaks_postgres: Whether the proxy parses PostgreSQL's messages.

    Returns:
        The proxy, and the DSN that leads through it.

    Raises:
        ScenarioFailed: When the database has no unix socket.
    """
    target = socket_of(testbed.dsn)
    if target is None:
        raise ScenarioFailed("a proxy needs a database that is reached by a unix socket")
    folder = testbed.folder / f"via-{name}"
    folder.mkdir()
    own = folder / target.name
    proxy = Proxy(Address(target), Address(own), speaks_postgres=speaks_postgres)
    return testbed.enter(proxy), redirected(testbed.dsn, own)
