"""Roads to the database that a proxy of ours stands on."""

from __future__ import annotations

from txqueue.store.conninfo import redirected, socket_of
from txqueue.torture.environment import Ground, ScenarioFailed
from txqueue.torture.proxy import Address, Proxy

__all__ = ["proxied"]


def proxied(ground: Ground, name: str, *, speaks_postgres: bool = True) -> tuple[Proxy, str]:
    """Open a road to the ground's database that can be hurt.

    Args:
        ground: Whose.
        name: The road's name, a short one.
        speaks_postgres: Whether the proxy is to understand single messages.

    Returns:
        The proxy, and the DSN that leads through it.

    Raises:
        ScenarioFailed: When the database has no unix socket.
    """
    target = socket_of(ground.dsn)
    if target is None:
        raise ScenarioFailed("a proxy needs a database that is reached by a unix socket")
    folder = ground.folder / f"via-{name}"
    folder.mkdir()
    own = folder / target.name
    proxy = Proxy(Address(target), Address(own), speaks_postgres=speaks_postgres)
    return ground.enter(proxy), redirected(ground.dsn, own)
