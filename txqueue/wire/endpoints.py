"""Where a node listens, and how to reach it: endpoints of this host only."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import (
    TCP4ClientEndpoint,
    TCP4ServerEndpoint,
    UNIXClientEndpoint,
    UNIXServerEndpoint,
)
from twisted.internet.protocol import Factory

from txqueue.errors import ConfigurationError

__all__ = ["Endpoint", "parsed_endpoint"]

# What the kernel can store of a socket's path.
LONGEST_PATH = 107
LOCALHOST = "127.0.0.1"
HIGHEST_PORT = 65_535


@frozen
class Endpoint:
    """A place on this host: a unix socket, or a TCP port of the loopback interface.

    Attributes:
        path: The socket's path; None for a port.
        port: The port's number.
        interface: The port's address.
    """

    path: Path | None = None
    port: int = 0
    interface: str = LOCALHOST

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"tcp:{self.port}:interface={self.interface}"

    def ensure_free(self) -> None:
        """Make sure that nobody listens here, and that we could.

        Raises:
            ConfigurationError: When somebody does, or the place cannot be used.
        """
        try:
            if self.path is None:
                _try_port(self.interface, self.port)
            else:
                _try_path(self.path)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen at {self}: {error.strerror or error}",
                "choose another --admin or --state-dir",
            ) from None

    def listen(self, reactor: Any, factory: Factory) -> Deferred[Any]:
        """Listen; a unix socket is for our own account only."""
        server: Any
        if self.path is None:
            server = TCP4ServerEndpoint(reactor, self.port, interface=self.interface)
        else:
            # With a lock beside it, the socket of a process that was killed is replaced.
            server = UNIXServerEndpoint(reactor, str(self.path), mode=0o600, wantPID=True)
        listening: Deferred[Any] = server.listen(factory)
        return listening

    def connect(self, reactor: Any, factory: Factory, timeout: int) -> Deferred[Any]:
        """Connect, within so many seconds; fails with a `ConnectError`."""
        client: Any
        if self.path is None:
            client = TCP4ClientEndpoint(reactor, self.interface, self.port, timeout)
        else:
            client = UNIXClientEndpoint(reactor, str(self.path), timeout)
        connecting: Deferred[Any] = client.connect(factory)
        return connecting


def parsed_endpoint(text: str) -> Endpoint:
    """Read an endpoint: ``unix:PATH`` or ``tcp:PORT[:interface=ADDRESS]``, of loopback by default.

    Raises:
        ConfigurationError: When it is neither, or reaches beyond this host.
    """
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest:
        return _unix(Path(rest))
    number, _, option = rest.partition(":")
    name, _, interface = option.partition("=")
    if kind != "tcp" or not number.isdecimal() or (option and name != "interface"):
        raise ConfigurationError(
            f"{text!r} is not an endpoint", f"write unix:PATH or tcp:PORT:interface={LOCALHOST}"
        )
    return _tcp(int(number), interface or LOCALHOST)


def _unix(path: Path) -> Endpoint:
    if len(str(path).encode()) > LONGEST_PATH:
        raise ConfigurationError(
            f"the socket path {path} is longer than {LONGEST_PATH} bytes",
            "give a shorter --state-dir or --admin",
        )
    return Endpoint(path)


def _tcp(port: int, interface: str) -> Endpoint:
    if not 0 < port <= HIGHEST_PORT:
        raise ConfigurationError(f"port {port} is not within 1 to {HIGHEST_PORT}", "give another")
    try:
        is_local = ipaddress.IPv4Address(interface).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        raise ConfigurationError(
            f"{interface} is not an IPv4 address of this host's loopback",
            f"use interface={LOCALHOST} or unix:PATH; nothing listens further without mutual TLS",
        )
    return Endpoint(port=port, interface=interface)


def _try_port(interface: str, port: int) -> None:
    with closing(socket.socket()) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((interface, port))


def _try_path(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        return
    with closing(socket.socket(socket.AF_UNIX)) as trial:
        try:
            trial.connect(str(path))
        except ConnectionRefusedError:
            # Left by a process that was killed.
            return
    raise OSError("another process listens there")
