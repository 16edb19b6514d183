"""Many callers that wait for a few turns: each gets its own, however fast the server is."""

import select
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

import psycopg2
import pytest
from psycopg2.extensions import STATUS_READY, connection
from twisted.internet.defer import Deferred, DeferredList, gatherResults
from twisted.python.failure import Failure
from txpostgres import txpostgres

from tests.waiting import running_reactor, within
from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.inquiries.operations import Operations

MANY = 400
SOON = 30.0


class Overtaken(connection):
    """A session of a process that the server's process overtakes: each answer is there at once."""

    most = 5.0

    def poll(self) -> int:
        """Poll once the answer is there."""
        if self.status == STATUS_READY and self.isexecuting():
            select.select([self], [], [], self.most)
        return int(super().poll())


@pytest.fixture
def pool(database18: str, monkeypatch: pytest.MonkeyPatch) -> ConnectionPool:
    """A pool of two connections to a server that answers at once."""
    connect = staticmethod(partial(psycopg2.connect, connection_factory=Overtaken))
    monkeypatch.setattr(txpostgres.Connection, "connectionFactory", connect)
    return ConnectionPool(running_reactor(), database18, 2, "txqueue test")


async def in_transaction(pool: ConnectionPool, number: int) -> int:
    """Return a number by way of the server."""
    async with pool.transaction() as lent:
        return int((await lent.query("select %s", (number,)))[0][0])


def started(pool: ConnectionPool, count: int) -> list[Deferred[int]]:
    """Some transactions at a time."""
    return [Deferred.fromCoroutine(in_transaction(pool, number)) for number in range(count)]


async def test_each_of_many_waiters_gets_its_turn(pool: ConnectionPool) -> None:
    """Also if each answer is there before the caller has returned to the reactor."""
    all_of_them = gatherResults(started(pool, MANY))
    all_of_them.addTimeout(SOON, running_reactor())
    assert await all_of_them == list(range(MANY))
    assert not pool.is_busy
    pool.close()


async def test_an_error_that_comes_at_once_is_the_callers(pool: ConnectionPool) -> None:
    """The next caller gets its own answer."""
    wrong, right = (Deferred.fromCoroutine(pool.query(sql)) for sql in ("select 1 / 0", "select 1"))
    with pytest.raises(psycopg2.errors.DivisionByZero):
        await wrong
    assert await right == [(1,)]
    pool.close()


@pytest.mark.parametrize("cancelled", range(6))
async def test_a_cancelled_transaction_takes_no_turn_along(
    pool: ConnectionPool, cancelled: int
) -> None:
    """Whether it runs or waits: the others get a connection, and none is lost."""
    six = started(pool, 6)
    six[cancelled].cancel()
    ends = DeferredList(six, consumeErrors=True)
    ends.addTimeout(SOON, running_reactor())
    lost = [number for number, (is_done, _) in enumerate(await ends) if not is_done]
    assert lost == [cancelled]
    assert not pool.is_busy
    pool.close()


def asked() -> Inquiry[int]:
    """Ask the server for a number."""
    rows = yield Question("select 1 as one")
    return int(rows[0]["one"])


async def find(operations: Operations) -> object:
    """Run a query of an operator."""
    return await operations.find(asked())


async def act(operations: Operations) -> object:
    """Run an act of an operator."""
    return await operations.act("resume", {"queues": ["default"], "who": "test"})


@pytest.mark.parametrize("asking", [find, act])
async def test_each_of_many_operators_is_told_that_the_pool_is_closed(
    pool: ConnectionPool, asking: Callable[[Operations], Coroutine[Any, Any, object]]
) -> None:
    """None is left to wait, though none of those that wait needs an answer of the server."""
    operations = Operations(pool, "txqueue")
    ends = [Deferred.fromCoroutine(asking(operations)) for _ in range(MANY)]
    pool.close()
    answers = await within(SOON, DeferredList(ends, consumeErrors=True))
    refused = [type(cast("Failure", answer).value) for _, answer in answers[1:]]
    assert refused == [DatabaseUnavailable] * (MANY - 1)


async def test_a_statement_sent_by_a_notification_keeps_its_time_limit(
    pool: ConnectionPool, database18: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the statement whose answer brought the notification does not end it."""
    pool = ConnectionPool(running_reactor(), database18, 1, "txqueue test", patience=0.5)
    lent = await pool.take()
    sent: list[Deferred[Any]] = []

    def receive(_: object) -> None:
        monkeypatch.setattr(Overtaken, "most", 0.0)
        sent.append(Deferred.fromCoroutine(lent.query("select pg_sleep(600)")))

    await lent.query("listen overtaken")
    lent.on_notify(receive)
    await lent.query("select pg_notify('overtaken', '')")
    (asking,) = sent
    failure = await within(SOON, asking.addErrback(lambda failure: failure.type))
    assert failure is DatabaseUnavailable
    pool.put_back(lent)
    pool.close()
