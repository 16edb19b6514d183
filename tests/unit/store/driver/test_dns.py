"""Which names of hosts are looked up before libpq would, and what is made of what is found."""

import socket
from typing import Any

import pytest

from tests.waiting import running_reactor
from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.hosts import ConnectAttempt, name_in, resolved


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
    """TLS compares the name; an address that does not answer leaves time for the next."""
    found = [(0, 0, 0, "", ("10.0.0.1", 0)), (0, 0, 0, "", ("fd00::1", 0, 0, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    first, last = await resolved(running_reactor(), ConnectAttempt({"host": "db"}, 10.0))
    assert first.parameters == {"host": "db", "hostaddr": "10.0.0.1"}
    assert last.parameters == {"host": "db", "hostaddr": "fd00::1"}
    assert (first.patience, last.patience) == (3.0, 10.0)


async def test_each_address_has_the_time_that_the_dsn_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with libpq, for each address anew."""
    found = [(0, 0, 0, "", ("10.0.0.1", 0)), (0, 0, 0, "", ("10.0.0.2", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    told = ConnectAttempt({"host": "db"}, 7.0, is_told=True)
    assert [each.patience for each in await resolved(running_reactor(), told)] == [7.0, 7.0]


async def test_an_unknown_host_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which."""

    def unknown(*_: object, **__: object) -> Any:
        raise socket.gaierror(-2, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DatabaseUnavailable, match="for the host nowhere"):
        await resolved(running_reactor(), ConnectAttempt({"host": "nowhere"}, 1.0))
