"""Endpoints at which a node listens: on this host, or with mutual TLS; and pipes to a node's admin
port.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ServerEndpoint,
    TCP6ServerEndpoint,
    UNIXClientEndpoint,
    UNIXServerEndpoint,
)
from twisted.internet.interfaces import IReactorTCP, IReactorTime, IReactorUNIX
from twisted.internet.protocol import Factory

from txqueue.errors import ConfigurationError
from txqueue.system.processes import command_of
from txqueue.wire.tls import Credentials

# The longest path of a socket that the kernel accepts.
LONGEST_PATH = 107
LOCALHOST = "127.0.0.1"
HIGHEST_PORT = 65_535
_PORT = re.compile(r"tcp:(\d+)((?::\w+=(?:\[[^\]]*\]|(?:\\:|[^:\[])+))*)")
_OPTION = re.compile(r":(\w+)=(\[[^\]]*\]|(?:\\:|[^:\[])+)")
_OPTIONS = {"interface", "host"}


class INetworkReactor(IReactorTCP, IReactorTime, IReactorUNIX):
    """The reactor as connections need it."""


@frozen
class Endpoint:
    """A unix socket or a TCP port; without TLS a port is on loopback only.

    Attributes:
        path: The socket's path; None for a port.
        port: The port's number.
        interface: The port's address.
        host: The name or address that peers connect to, if it is not the interface's.
        credentials: The certificate for TLS at the port; None for no TLS. A unix socket needs none.
    """

    path: Path | None = None
    port: int = 0
    interface: str = LOCALHOST
    host: str | None = None
    credentials: Credentials | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        host = "" if self.host is None else f":host={_bracketed(self.host)}"
        return f"tcp:{self.port}:interface={_bracketed(self.interface)}{host}"

    @property
    def address(self) -> str:
        """The name or address that peers use to connect to the port."""
        if self.host is not None:
            return self.host
        is_any = ipaddress.ip_address(self.interface).is_unspecified
        return socket.gethostname() if is_any else self.interface

    def beside(self, index: int) -> Endpoint:
        """Return the endpoint of another node of the same process; node 0 has this endpoint.

        Args:
            index: The node's number, which is added to the port or to the socket's name.
        """
        if index == 0:
            return self
        if self.path is None:
            return evolve(self, port=self.port + index)
        return evolve(self, path=self.path.with_stem(f"{self.path.stem}-{index + 1}"))

    def ensure_free(self, remedy: str = "choose another", if_taken: str | None = None) -> None:
        """Check that the endpoint is free and that this process could listen there.

        Args:
            remedy: What the error advises to do.
            if_taken: What it advises if another process listens there; by default the same.

        Raises:
            ConfigurationError: When the endpoint is in use or not usable.
        """
        try:
            if self.path is None:
                _try_port(self.interface, self.port)
            else:
                _try_path(self.path)
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            raise ConfigurationError(
                f"cannot listen at {self}: {error.strerror or error}",
                if_taken if is_taken and if_taken is not None else remedy,
            ) from None

    def listen(self, reactor: INetworkReactor, factory: Factory[Any]) -> Deferred[Any]:
        """Listen at the endpoint; only this account can connect to a unix socket."""
        server: Any
        if self.path is None:
            is_old = ipaddress.ip_address(self.interface).version == 4
            kind = TCP4ServerEndpoint if is_old else TCP6ServerEndpoint
            server = kind(reactor, self.port, interface=self.interface)
            if self.credentials is not None:
                factory = self.credentials.server(factory)
        else:
            # Thanks to its lock file, the socket of a killed process is replaced.
            server = UNIXServerEndpoint(reactor, str(self.path), mode=0o600, wantPID=True)
        listening: Deferred[Any] = server.listen(factory)
        return listening

    def connect(self, reactor: INetworkReactor, factory: Factory, timeout: int) -> Deferred[Any]:
        """Connect within a timeout in seconds; the Deferred may fail with a `ConnectError`."""
        client: Any
        if self.path is None:
            client = HostnameEndpoint(reactor, self.host or self.interface, self.port, timeout)
            if self.credentials is not None:
                factory = self.credentials.client(factory)
        else:
            client = UNIXClientEndpoint(reactor, str(self.path), timeout)
        connecting: Deferred[Any] = client.connect(factory)
        return connecting


def is_loopback(address: str) -> bool:
    """Tell whether an address, not a name, is on loopback."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def parsed_endpoint(
    text: str,
    credentials: Credentials | None = None,
    *,
    is_public: bool = False,
    option: str | None = None,
) -> Endpoint:
    """Read an endpoint: ``unix:PATH`` or ``tcp:PORT[:interface=ADDRESS][:host=NAME]``.

    Args:
        text: The endpoint; without an interface it is on loopback.
        credentials: For TLS at a port; without them only loopback is allowed.
        is_public: Allow any interface without TLS, for a port that has no secrets and takes no
            commands.
        option: What has given the text, which the error names: an option, variable or setting.

    Raises:
        ConfigurationError: When the text is not valid, or means a port that would be open to other
            hosts without TLS.
    """
    try:
        return _parsed(text, credentials, is_public=is_public)
    except ConfigurationError as error:
        if option is None:
            raise
        raise ConfigurationError(f"{option} is not valid: {error.what}", error.remedy) from None


def _parsed(text: str, credentials: Credentials | None, *, is_public: bool) -> Endpoint:
    # Programs may pass other types.
    kind, _, rest = str(text).partition(":")
    if kind == "unix" and rest:
        return _unix(Path(rest))
    parts = _PORT.fullmatch(str(text))
    options = {name: _plain(value) for name, value in _OPTION.findall(parts[2] if parts else "")}
    if parts is None or not options.keys() <= _OPTIONS:
        raise ConfigurationError(
            f"{text!r} is not an endpoint", f"write unix:PATH or tcp:PORT:interface={LOCALHOST}"
        )
    interface = options.get("interface", LOCALHOST)
    host = options.get("host")
    return _tcp(int(parts[1]), interface, host, credentials, is_public=is_public)


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _plain(value: str) -> str:
    return value.replace("\\:", ":").removeprefix("[").removesuffix("]")


def _unix(path: Path) -> Endpoint:
    if len(str(path).encode()) > LONGEST_PATH:
        raise ConfigurationError(
            f"the socket path {path} is longer than {LONGEST_PATH} bytes",
            "give a shorter --state-dir or --admin",
        )
    return Endpoint(path)


def _tcp(
    port: int,
    interface: str,
    host: str | None,
    credentials: Credentials | None,
    *,
    is_public: bool,
) -> Endpoint:
    if not 0 < port <= HIGHEST_PORT:
        raise ConfigurationError(
            f"port {port} is not within 1 to {HIGHEST_PORT}", "give one that is"
        )
    try:
        ipaddress.ip_address(interface)
    except ValueError:
        raise ConfigurationError(
            f"interface {interface} is not an IP address",
            "give the address of one of this host's interfaces",
        ) from None
    for address in filter(None, (interface, host)):
        if credentials is None and not is_public and not is_loopback(address):
            raise ConfigurationError(
                f"{address} is not an address of this host's loopback,"
                " and other interfaces need mutual TLS",
                "give --tls-dir (txqueue certs init and txqueue certs issue make what it holds),"
                f" or use interface={LOCALHOST} or unix:PATH",
            )
    return Endpoint(path=None, port=port, interface=interface, host=host, credentials=credentials)


def _try_port(interface: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in interface else socket.AF_INET
    with closing(socket.socket(family)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((interface, port))


def _try_path(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and _answers(path):
        raise OSError(errno.EADDRINUSE, "another process listens there")
    if path.exists() and not path.is_socket():
        raise OSError("a file that is not a socket has this path")
    _try_lock(path, path.with_name(f"{path.name}.lock"))
    _try_folder(path)


def _try_lock(path: Path, lock: Path) -> None:
    """Remove the lock of a process that has ended; without one its socket would look in use."""
    if lock.is_symlink():
        if not _is_stale(lock):
            raise OSError(errno.EADDRINUSE, f"process {lock.readlink()} has its lock")
        path.unlink(missing_ok=True)
        lock.unlink()
    elif lock.exists():
        raise OSError(f"{lock.name} is in the way")


def _try_folder(path: Path) -> None:
    """Make a socket beside the path: a folder may be writable for others only, or not at all."""
    probe_path = path.with_name(f".{os.getpid()}")
    if len(bytes(probe_path)) > LONGEST_PATH:
        return
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        probe_path.unlink(missing_ok=True)
        probe.bind(str(probe_path))
    probe_path.unlink()


def _answers(path: Path) -> bool:
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            # A killed process has left this lock file.
            return False
    return True


def _is_stale(lock: Path) -> bool:
    """Tell whether the process in a lock file is not a node: containers reuse process ids."""
    try:
        pid = int(lock.readlink().name)
        return pid == os.getpid() or "txqueue" not in command_of(pid)
    except (OSError, ValueError):
        return True
