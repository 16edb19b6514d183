"""Finds a host's addresses in a thread: libpq would hold the reactor up until it knows them."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.error import TimeoutError
from twisted.internet.threads import deferToThreadPool

from txqueue.errors import DatabaseUnavailable
from txqueue.store.conninfo import ConnectAttempt
from txqueue.store.driver import IStoreReactor

__all__ = ["name_in", "resolved"]


def name_in(parameters: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name that libpq would look up; None if there is none, or several.

    Args:
        parameters: What the driver is told.
        environ: Where libpq looks for what it is not told.
    """
    if parameters.get("hostaddr") or environ.get("PGHOSTADDR"):
        return None
    name = parameters.get("host") or environ.get("PGHOST", "")
    return None if name[:1] in ("", "/", "@") or "," in name or _is_address(name) else name


async def resolved(reactor: IStoreReactor, attempt: ConnectAttempt) -> ConnectAttempt:
    """Return an attempt that names its addresses beside the host, whose name TLS needs.

    Args:
        reactor: Whose threads ask the resolver.
        attempt: What the driver is told, and for how long the resolver may take.

    Raises:
        DatabaseUnavailable: When there is no such host, or the resolver does not answer.
    """
    name = name_in(attempt.parameters)
    if name is None:
        return attempt
    asking: Deferred[list[Any]] = deferToThreadPool(
        reactor, reactor.getThreadPool(), socket.getaddrinfo, name, None, type=socket.SOCK_STREAM
    )
    try:
        found = await asking.addTimeout(attempt.patience, reactor)
    except (OSError, UnicodeError, TimeoutError):
        raise DatabaseUnavailable(
            f"no address was found for the host {name}", "check the DSN and the name server"
        ) from None
    addresses = list(dict.fromkeys(address[0] for *_, address in found))
    # libpq tries one after the other, each under its name.
    names = ",".join([name] * len(addresses))
    told = {**attempt.parameters, "host": names, "hostaddr": ",".join(addresses)}
    return evolve(attempt, parameters=told)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
