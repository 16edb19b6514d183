"""Which names of hosts are looked up before libpq would, and what is made of what is found."""

import socket
from typing import Any

import pytest

from tests.waiting import running_reactor
from txqueue.errors import DatabaseUnavailable
from txqueue.store.conninfo import ConnectAttempt
from txqueue.store.dns import name_in, resolved


@pytest.mark.parametrize(
    ("parameters", "environ", "name"),
    [
        ({"host": "db.example"}, {}, "db.example"),
        ({}, {"PGHOST": "db.example"}, "db.example"),
        ({}, {}, None),
        ({"host": "/run/postgresql"}, {"PGHOST": "db.example"}, None),
        ({"host": "@abstract"}, {}, None),
        ({"host": "10.0.0.1"}, {}, None),
        ({"host": "::1"}, {}, None),
        ({"host": "a,b"}, {}, None),
        ({"host": "db.example", "hostaddr": "10.0.0.1"}, {}, None),
        ({"host": "db.example"}, {"PGHOSTADDR": "10.0.0.1"}, None),
    ],
)
def test_only_names_are_looked_up(
    parameters: dict[str, str], environ: dict[str, str], name: str | None
) -> None:
    """Not sockets, nor addresses, nor what libpq must see whole."""
    assert name_in(parameters, environ) == name


async def test_each_address_is_tried_under_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS compares the name."""
    found = [(0, 0, 0, "", ("10.0.0.1", 0)), (0, 0, 0, "", ("fd00::1", 0, 0, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    attempt = await resolved(running_reactor(), ConnectAttempt({"host": "db", "user": "me"}, 1.0))
    assert attempt.parameters == {"host": "db,db", "hostaddr": "10.0.0.1,fd00::1", "user": "me"}


async def test_an_unknown_host_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which."""

    def unknown(*_: object, **__: object) -> Any:
        raise socket.gaierror(-2, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DatabaseUnavailable, match="for the host nowhere"):
        await resolved(running_reactor(), ConnectAttempt({"host": "nowhere"}, 1.0))
