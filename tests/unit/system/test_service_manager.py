"""Messages to the service manager."""

import os
import socket
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from txqueue.system.service_manager import ServiceManager, take_service_manager


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        ({"NOTIFY_SOCKET": ""}, None),
        ({"NOTIFY_SOCKET": "@"}, None),
        ({"NOTIFY_SOCKET": "vsock:2:1"}, None),
        ({"WATCHDOG_USEC": "1000000"}, None),
        ({"NOTIFY_SOCKET": "/run/n"}, ServiceManager("/run/n")),
        ({"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "2500000"}, ServiceManager("@n", 2.5)),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"}, ServiceManager("/n")),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "x"}, ServiceManager("/n")),
        (
            {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
            ServiceManager("/n"),
        ),
        (
            {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())},
            ServiceManager("/n", 1.0),
        ),
    ],
)
def test_what_the_environment_says(variables: dict[str, str], found: ServiceManager | None) -> None:
    """And no child process inherits any of it."""
    environ = {"PATH": "/bin", **variables}
    assert take_service_manager(environ) == found
    assert environ == {"PATH": "/bin"}


@pytest.mark.parametrize("is_abstract", [False, True])
def test_messages(is_abstract: bool, tmp_path: Path) -> None:
    """Each is one datagram; a status stays on its line."""
    name = f"txqueue-{uuid4().hex}"
    address = f"@{name}" if is_abstract else str(tmp_path / name)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as receiver:
        receiver.bind(f"\0{name}" if is_abstract else address)
        receiver.settimeout(5)
        manager = ServiceManager(address)
        assert manager.ready("up\nMAINPID=1")
        assert receiver.recv(4096) == b"READY=1\nSTATUS=up MAINPID=1"
        assert manager.extend(1.5)
        assert receiver.recv(4096) == b"EXTEND_TIMEOUT_USEC=1500000"
        assert manager.alive()
        assert receiver.recv(4096) == b"WATCHDOG=1"
        assert manager.status("é" * 1000)
        assert len(receiver.recv(4096).decode()) == len("STATUS=") + 400


def test_nobody_receives(tmp_path: Path) -> None:
    """No error: the service manager may be restarting."""
    assert not ServiceManager(str(tmp_path / "none")).alive()
    assert not ServiceManager("/" + "x" * 200).alive()
