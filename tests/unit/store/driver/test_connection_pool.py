"""A few connections that heal, as far as it shows without a database."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver import connection_pool as pool_module
from txqueue.store.driver.connection_pool import ConnectionPool


@define(eq=False)
class Wire:
    """Stands for a connection: remembers what was asked, and breaks when told to."""

    asked: list[str] = field(factory=list)
    is_dead: bool = False
    is_reusable: bool = True
    is_idle: bool = True
    was_silent: bool = False
    age: float = 0.0
    is_closed: bool = False
    refuses: str | None = None

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[int]]:
        """Answer, or refuse."""
        self.asked.append(sql)
        if sql == self.refuses:
            raise RuntimeError(f"refused: {sql}")
        return [(len(self.asked),)]

    def begin(self) -> None:
        """Note it."""
        self.asked.append("begin")

    async def commit(self, last: tuple[str, Sequence[object]] | None = None) -> None:
        """Answer."""
        await self.query("commit" if last is None else f"{last[0]}; commit")

    async def roll_back(self) -> None:
        """Note it."""
        self.asked.append("rollback")

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


@define
class Server:
    """Opens connections, and remembers them."""

    opened: list[Wire] = field(factory=list)
    is_down: bool = False

    def connection(self, *_: object, **__: object) -> "Server":
        """Stand for the class."""
        return self

    async def open(self, dsn: str, backoff: object = None, slow_hosts: object = None) -> Wire:
        """Open one more."""
        if self.is_down:
            raise DatabaseUnavailable("down")
        self.opened.append(Wire())
        return self.opened[-1]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """What the pool connects to."""
    server = Server()
    monkeypatch.setattr(pool_module, "Connection", server.connection)
    return server


@pytest.fixture
def pool(server: Server) -> ConnectionPool:
    """A pool of two."""
    return ConnectionPool(cast("Any", None), "", 2, "test")


def lend(pool: ConnectionPool) -> tuple[list[Wire], Deferred[None]]:
    """Take a connection and keep it until the Deferred is fired."""
    lent: list[Wire] = []
    back: Deferred[None] = Deferred()

    async def hold() -> None:
        async with _wires(pool) as wire:
            lent.append(wire)
            await back

    Deferred.fromCoroutine(hold())
    return lent, back


@asynccontextmanager
async def _wires(pool: ConnectionPool) -> AsyncIterator[Wire]:
    connection: Any = await pool.take()
    try:
        yield connection
    finally:
        pool.put_back(connection)


async def test_one_connection_serves_one_after_the_other(
    pool: ConnectionPool, server: Server
) -> None:
    """It is opened when first needed."""
    assert server.opened == []
    assert [await pool.query("a"), await pool.query("b")] == [[(1,)], [(2,)]]
    assert [wire.asked for wire in server.opened] == [["a", "b"]]


async def test_who_comes_when_all_are_lent_waits(pool: ConnectionPool, server: Server) -> None:
    """In turn; never more connections than the size."""
    (first, back), (second, other_back), (third, last_back) = lend(pool), lend(pool), lend(pool)
    assert (len(first), len(second), len(third)) == (1, 1, 0)
    back.callback(None)
    assert third == first
    for each in (other_back, last_back):
        each.callback(None)
    assert len(server.opened) == 2


async def test_a_dead_connection_is_replaced(pool: ConnectionPool, server: Server) -> None:
    """The next caller gets a new one."""
    await pool.query("a")
    server.opened[0].is_dead = True
    await pool.query("b")
    assert [wire.asked for wire in server.opened] == [["a"], ["b"]]
    assert server.opened[0].is_closed


async def test_an_old_connection_is_replaced(pool: ConnectionPool, server: Server) -> None:
    """Backends grow with what they have seen: after half an hour the next caller gets a new one."""
    await pool.query("a")
    server.opened[0].age = 1400.0
    await pool.query("b")
    server.opened[0].age = 1800.0
    await pool.query("c")
    assert [wire.asked for wire in server.opened] == [["a", "b"], ["c"]]
    assert server.opened[0].is_closed


async def test_one_that_dies_while_lent_is_closed(pool: ConnectionPool, server: Server) -> None:
    """It does not come back among the idle ones."""
    lent, back = lend(pool)
    lent[0].is_dead = True
    back.callback(None)
    assert lent[0].is_closed
    await pool.query("b")
    assert len(server.opened) == 2


async def test_a_failed_attempt_to_connect_takes_no_turn(
    pool: ConnectionPool, server: Server
) -> None:
    """When the database is back, so is the pool."""
    server.is_down = True
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable):
            await pool.query("a")
    server.is_down = False
    backs = [lend(pool)[1], lend(pool)[1]]
    assert len(server.opened) == 2
    for back in backs:
        back.callback(None)


async def test_the_last_statement_of_a_transaction_comes_with_its_commit(
    pool: ConnectionPool, server: Server
) -> None:
    """What it says is asked for at the end; if it fails, all is rolled back."""
    async with pool.transaction(lambda: ("last", ())) as connection:
        await connection.query("a")
    server.opened[0].refuses = "last; commit"
    with pytest.raises(RuntimeError, match="refused"):
        async with pool.transaction(lambda: ("last", ())):
            pass
    ended = ["begin", "a", "last; commit", "begin", "last; commit", "rollback"]
    assert server.opened[0].asked == ended


async def test_closing_closes_the_idle_now_and_the_lent_when_back(
    pool: ConnectionPool, server: Server
) -> None:
    """No borrower is interrupted."""
    (_, back), (lent, other_back) = lend(pool), lend(pool)
    back.callback(None)
    pool.close()
    assert [wire.is_closed for wire in server.opened] == [True, False]
    other_back.callback(None)
    assert lent[0].is_closed


async def test_idle_connections_to_a_silent_server_are_closed(
    pool: ConnectionPool, server: Server
) -> None:
    """With the one whose statement got no answer: each would cost its caller the same wait."""
    (_, back), (_, other_back) = lend(pool), lend(pool)
    back.callback(None)
    silent, idle = server.opened[1], server.opened[0]
    silent.is_dead = silent.was_silent = True
    other_back.callback(None)
    assert idle.is_closed
    await pool.query("a")
    assert [wire.asked for wire in server.opened] == [[], [], ["a"]]


async def test_a_wait_for_a_connection_ends(server: Server) -> None:
    """With an error that names the cause; the connections are lent again afterwards."""
    clock = Clock()
    bounded = ConnectionPool(cast("Any", clock), "", 1, "test", wait=30.0)
    lent, back = lend(bounded)
    waiting = Deferred.fromCoroutine(bounded.query("a"))
    clock.advance(29.9)
    assert not waiting.called
    clock.advance(0.2)
    with pytest.raises(DatabaseUnavailable, match=r"within 30 s: all 1 .*txn\.enqueue\(\)"):
        await waiting
    late = Deferred.fromCoroutine(bounded.query("b"))
    back.callback(None)
    assert await late == [(1,)]
    assert len(server.opened) == len(lent) == 1
    assert not clock.getDelayedCalls()
