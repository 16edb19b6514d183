"""Messages to the service manager that started this process, as systemd defines them.

A message is one datagram of ``NAME=value`` lines to the socket that ``NOTIFY_SOCKET`` names. The
format is stable, so no library is needed: see ``sd_notify(3)``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import closing

from attrs import frozen

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
# The longest status that is sent, in characters: it must fit into a datagram and on a line.
LONGEST_STATUS = 400
# Seconds that one message may take while the service manager is busy.
PATIENCE = 0.2
_MICRO = 1_000_000


@frozen
class ServiceManager:
    """The service manager of this process.

    Attributes:
        address: The socket's address; a leading ``@`` means Linux's abstract namespace.
        watchdog: Seconds of silence after which the service manager kills the process; None for
            never.
    """

    address: str
    watchdog: float | None = None

    def ready(self, status: str) -> bool:
        """Report that the start has succeeded; return whether the message was sent."""
        return self._send("READY=1", _status(status))

    def status(self, status: str) -> bool:
        """Report a line of text for people; return whether the message was sent."""
        return self._send(_status(status))

    def alive(self) -> bool:
        """Reset the watchdog; return whether the message was sent."""
        return self._send("WATCHDOG=1")

    def stopping(self, status: str) -> bool:
        """Report that the stop has begun; return whether the message was sent."""
        return self._send("STOPPING=1", _status(status))

    def extend(self, seconds: float) -> bool:
        """Ask for more time to start or stop; return whether the message was sent.

        Args:
            seconds: The time from now, within which the next request must arrive.
        """
        return self._send(f"EXTEND_TIMEOUT_USEC={round(seconds * _MICRO)}")

    def _send(self, *lines: str) -> bool:
        """Send a message; a service manager that restarts must not stop the node."""
        address = self.address
        if address.startswith("@"):
            address = "\0" + address[1:]
        try:
            with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
                sender.settimeout(PATIENCE)
                sender.sendto("\n".join(lines).encode(), address)
        except (OSError, ValueError):
            return False
        return True


def take_service_manager(environ: MutableMapping[str, str]) -> ServiceManager | None:
    """Find the service manager in the environment, and remove its variables.

    Child processes must not inherit the variables: their messages would count as this process's.

    Args:
        environ: The environment, from which the variables are removed.

    Returns:
        The service manager; None if none has asked this process for messages.
    """
    address, watchdog, pid = (environ.pop(name, "") for name in _VARIABLES)
    if not address.startswith(("/", "@")) or len(address) < 2:
        # The other kinds of address, such as vsock:, are for virtual machines.
        return None
    is_ours = pid in ("", str(os.getpid()))
    has_watchdog = is_ours and watchdog.isdecimal() and int(watchdog) > 0
    return ServiceManager(address, int(watchdog) / _MICRO if has_watchdog else None)


def _status(text: str) -> str:
    """Return the line of a status; a line break in it would begin another field."""
    return f"STATUS={' '.join(text.split())[:LONGEST_STATUS]}"
