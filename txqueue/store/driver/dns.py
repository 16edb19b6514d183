"""Looks up the database host's addresses: in a thread for a reactor, which libpq would block."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.conninfo import ConnectAttempt

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from txqueue.store.driver.raw_connection import IStoreReactor

__all__ = ["looked_up", "name_in", "resolved"]


def name_in(parameters: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the host name that libpq would look up; None if there is none, or several.

    Args:
        parameters: The driver's connection parameters.
        environ: The environment, for libpq's variables.
    """
    if parameters.get("hostaddr") or environ.get("PGHOSTADDR"):
        return None
    name = parameters.get("host") or environ.get("PGHOST", "")
    return None if name[:1] in ("", "/", "@") or "," in name or _is_address(name) else name


async def resolved(reactor: IStoreReactor, attempt: ConnectAttempt) -> list[ConnectAttempt]:
    """Return an attempt for each address of the host, in the resolver's order.

    Args:
        reactor: Its threads call the resolver.
        attempt: The driver's parameters and the time limit, which also applies to the resolver.

    Raises:
        DatabaseUnavailable: When there is no such host, or the resolver does not answer.
    """
    # Here, as commands look names up without Twisted.
    from twisted.internet.error import TimeoutError
    from twisted.internet.threads import deferToThreadPool

    name = name_in(attempt.parameters)
    if name is None:
        return [attempt]
    asking: Deferred[list[str]] = deferToThreadPool(
        reactor, reactor.getThreadPool(), _addresses, name
    )
    try:
        return attempt.at_each(await asking.addTimeout(attempt.patience, reactor))
    except TimeoutError:
        raise _unknown(name) from None


def looked_up(attempt: ConnectAttempt) -> list[ConnectAttempt]:
    """Return an attempt for each address of the host, without a reactor.

    Raises:
        DatabaseUnavailable: When there is no such host.
    """
    name = name_in(attempt.parameters)
    return [attempt] if name is None else attempt.at_each(_addresses(name))


def _addresses(name: str) -> list[str]:
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _unknown(name) from None
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


def _unknown(name: str) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"no address was found for the host {name}", "check the DSN and the name server"
    )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
