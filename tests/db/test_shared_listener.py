"""The listening connection, which many callers use while it is idle."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from psycopg2.errors import DivisionByZero
from psycopg2.extensions import make_dsn, parse_dsn
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import UNIXClientEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol

from tests.db.test_connection import folder
from tests.waiting import eventually, pause, running_reactor
from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.connection import Connection
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.listener import Listener

__all__ = ["folder"]

STATEMENTS = [
    "select %s::integer",
    "select %s::integer, pg_notify('txqueue', 'own')::text",
    "select 1 / (%s::integer - 1)",
    "select repeat('x', 20000 + %s::integer)",
]
# Lengths of the pieces that arrive in one turn: messages of the protocol begin with five octets.
PIECES = [1, 2, 3, 5, 6, 7, 13, 40, 10_000]
NOTIFICATIONS = 300
# Statements on the listening connection without which the test has shown nothing.
ENOUGH = 10


class Split(Protocol):
    """One direction of a connection, which carries a piece of random length in each turn."""

    def __init__(self, chance: random.Random, other: "Split | None" = None) -> None:
        self._chance = chance
        self._held = b""
        self._other = other

    def join(self, other: "Split") -> None:
        """Carry to this end of the other connection."""
        self._other = other

    def dataReceived(self, data: bytes) -> None:
        """Hold back what came."""
        is_idle = not self._held
        self._held += data
        if is_idle:
            self._carry()

    def _carry(self) -> None:
        assert self._other is not None
        if self._held and self._other.transport is not None:
            length = self._chance.choice(PIECES)
            piece, self._held = self._held[:length], self._held[length:]
            self._other.transport.write(piece)
        if self._held:
            running_reactor().callLater(0, self._carry)

    def connectionLost(self, reason: object = None) -> None:
        """Close the other connection."""
        self.transport = None
        self._held = b""
        if self._other is not None and self._other.transport is not None:
            self._other.transport.loseConnection()


class Splitting(Factory):
    """Joins each connection with one to the server."""

    def __init__(self, chance: random.Random, server: str) -> None:
        self._chance, self._server = chance, server
        self.open: list[Split] = []

    def buildProtocol(self, _: object) -> Split:
        """Connect to the server."""
        down = Split(self._chance)
        up = Split(self._chance, down)
        down.join(up)
        self.open += [down, up]
        connectProtocol(UNIXClientEndpoint(running_reactor(), self._server), up)
        return down

    def is_closed(self) -> bool:
        """Whether no connection is left."""
        return all(one.transport is None for one in self.open)


@asynccontextmanager
async def split(dsn: str, folder: Path, seed: int) -> AsyncIterator[str]:
    """The DSN of a way to the server that carries messages in pieces."""
    parts = parse_dsn(dsn)
    name = f".s.PGSQL.{parts.get('port', 5432)}"
    splitting = Splitting(random.Random(seed), f"{parts['host']}/{name}")
    port = running_reactor().listenUNIX(f"{folder}/{name}", splitting)
    try:
        yield make_dsn(dsn, host=str(folder))
    finally:
        await port.stopListening()
        for one in splitting.open:
            if one.transport is not None:
                one.transport.loseConnection()
        await eventually(splitting.is_closed)


@pytest.mark.parametrize("seed", range(3))
async def test_callers_never_meet_on_it(database18: str, folder: Path, seed: int) -> None:
    """Each of several services that notifications wake gets its own answer, or uses the pool."""
    chance = random.Random(seed)
    sleeping: list[Deferred[None]] = []
    there = 0
    is_over = False

    def wake(_: object) -> None:
        woken, sleeping[:] = sleeping[:], []
        for each in woken:
            each.callback(None)

    async def serve(number: int) -> None:
        """Run statements, on the listening connection while it is idle."""
        nonlocal there
        while not is_over:
            where = one.idle or pool
            there += where is not pool
            sql = chance.choice(STATEMENTS)
            try:
                [[*values]] = await where.query_often(sql, (number,))
            except DivisionByZero:
                assert (sql, number) == (STATEMENTS[2], 1)
            else:
                expected = {0: number, 1: number, 3: "x" * (20000 + number)}
                assert values[0] == expected.get(STATEMENTS.index(sql), values[0])
            if chance.random() < 0.5 and not is_over:
                sleeping.append(Deferred())
                await sleeping[-1]

    async with split(database18, folder, seed) as through:
        one = Listener(running_reactor(), through, "txqueue", wake)
        pool = ConnectionPool(running_reactor(), database18, 5, "others")
        with closing(pool), closing(one):
            await one.ensure()
            services = [Deferred.fromCoroutine(serve(number)) for number in range(1, 4)]
            for sent in range(100 * NOTIFICATIONS):
                # How often a service meets an idle connection depends on the machine.
                if sent >= NOTIFICATIONS and there > ENOUGH:
                    break
                await pool.query("select pg_notify('txqueue', 'x') from generate_series(1, 2)")
                if chance.random() < 0.3:
                    await pause(0)
            is_over = True
            wake(None)
            await gatherResults(services)
            assert there > ENOUGH
        await eventually(lambda: one.idle is None)


async def test_a_connection_out_of_step_is_not_lent(database18: str) -> None:
    """psycopg2 runs a statement of which no caller knows: the next one gets another connection."""
    pool = ConnectionPool(running_reactor(), database18, 1, "one")
    with closing(pool):
        connection = await pool.take()
        begin_unseen(connection)
        assert not connection.is_idle
        with pytest.raises(DatabaseUnavailable, match="still underway"):
            await connection.query("select 1")
        assert connection.is_dead
        pool.put_back(connection)
        assert await pool.query("select 2") == [(2,)]


def begin_unseen(connection: Connection) -> None:
    """Send a statement past the connection, as a fault in its driver might."""
    driver = vars(connection)["_driver"]
    cursor = driver.session.cursor()
    cursor.execute("select 0")
    vars(connection)["unseen"] = cursor
