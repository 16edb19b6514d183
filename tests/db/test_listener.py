"""The connection that listens, which also runs claims while it is idle."""

from contextlib import closing

import pytest
from twisted.internet.defer import Deferred

from tests.db.test_connection import listener
from tests.waiting import eventually, running_reactor
from txqueue.errors import Refused
from txqueue.store.connection import Connection
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.functions import StoredFunctions
from txqueue.store.listener import Listener


async def test_an_idle_listener_runs_claims(dsn: str) -> None:
    """And receives what is notified meanwhile; claims run elsewhere while it is busy or away."""
    heard: list[bool] = []
    one = listener(dsn, heard)
    pool = ConnectionPool(running_reactor(), dsn, 1, "claims")
    functions = StoredFunctions(pool, listener=one)

    async def claim() -> None:
        """Claim, of nothing."""
        assert await functions.claim_ready(1, 1, ["default"], ["none"], 1) == ([], True)

    async def last() -> list[str]:
        """The first word after "from" of the listener's last statement."""
        return [
            name
            for (name,) in await pool.query(
                "select substring(query, 'from txqueue.(\\w+)') from pg_stat_activity"
                " where application_name = 'txqueue listener'"
            )
        ]

    try:
        await claim()
        assert await one.ensure()
        await claim()
        assert await last() == ["claim_ready"]
        assert one.idle is not None
        napping = Deferred.fromCoroutine(one.idle.query("notify txqueue; select pg_sleep(0.2)"))
        assert one.idle is None
        await claim()
        await napping
        await eventually(lambda: heard)
        assert await last() == [None]
        await pool.query(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'txqueue listener'"
        )
        await eventually(lambda: one.idle is None)
        await claim()
        assert await one.ensure()
        await claim()
        assert await last() == ["claim_ready"]
    finally:
        one.close()
        pool.close()
    assert one.idle is None


async def test_an_old_listener_is_replaced(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the connections of a pool are, but not while a statement runs on it."""
    monkeypatch.setattr("txqueue.store.listener.LONGEST_LIFE", 0.0)
    heard: list[bool] = []
    one = listener(dsn, heard)
    with closing(one):
        assert await one.ensure()
        assert one.idle is not None
        napping = Deferred.fromCoroutine(one.idle.query("select pg_sleep(0.1)"))
        assert not await one.ensure()
        await napping
        assert await one.ensure()
        assert one.idle is not None
        await one.idle.query("notify txqueue")
        await eventually(lambda: heard)


async def test_a_listener_that_could_not_listen_tries_again(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection on which it does not listen yet is no reason to be content."""
    one = listener(dsn, [])
    with closing(one):
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "is_pooled", interrupted)
            with pytest.raises(Refused, match="interrupted"):
                await one.ensure()
        assert one.idle is None
        assert await one.ensure()
        assert one.idle is not None


async def interrupted(_: Connection) -> bool:
    """Fail as a statement that an operator cancels."""
    raise Refused("interrupted")


async def test_a_node_listens_on_the_channel_of_its_run(dsn: str) -> None:
    """In place of that of the run before, again after a loss, and not while it is busy."""
    heard: list[str] = []
    one = Listener(running_reactor(), dsn, "txqueue", heard.extend)
    pool = ConnectionPool(running_reactor(), dsn, 1, "notifying")

    async def is_heard(channel: str) -> bool:
        """Whether a notification on this channel arrives before one on the common channel."""
        heard.clear()
        await pool.query("select pg_notify(%s, 'its')", (channel,))
        await pool.query("notify txqueue, 'common'")
        await eventually(lambda: "common" in heard)
        return heard == ["its", "common"]

    with closing(pool), closing(one):
        assert await one.ensure("run_1")
        assert one.listens_on("run_1")
        assert await is_heard("run_1")
        assert one.idle is not None
        napping = Deferred.fromCoroutine(one.idle.query("select pg_sleep(0.1)"))
        assert not await one.ensure("run_2")
        assert not one.listens_on("run_2")
        await napping
        assert not await one.ensure("run_2")
        assert (one.listens_on("run_1"), one.listens_on("run_2")) == (False, True)
        assert [await is_heard("run_1"), await is_heard("run_2")] == [False, True]
        await pool.query(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'txqueue listener'"
        )
        await eventually(lambda: not one.listens_on("run_2"))
        assert await one.ensure("run_2")
        assert await is_heard("run_2")
