"""The connection that listens, which also runs claims while it is idle."""

from contextlib import closing
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from tests.db.test_connection import folder, listener
from tests.waiting import eventually, pause, running_reactor
from txqueue.errors import DatabaseUnavailable, Refused
from txqueue.store.driver.connection import Connection
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.listener import Listener, OwnChannel
from txqueue.store.node.functions import StoredFunctions
from txqueue_torture.proxy import Address, Direction, Proxy
from txqueue_torture.sockets import redirected, socket_of

__all__ = ["folder"]


def channel(name: str) -> OwnChannel:
    """A channel as stored functions make it, but with a known name."""
    named = f"select '{name}'"
    return OwnChannel(f'listen "{name}"; {named}', f"notify \"{name}\", 'probe'; {named}")


async def test_an_idle_listener_runs_claims(dsn: str) -> None:
    """And receives what is notified meanwhile; claims run elsewhere while it is busy or away."""
    heard: list[bool] = []
    one = listener(dsn, heard)
    pool = ConnectionPool(running_reactor(), dsn, 1, "claims")
    functions = StoredFunctions(pool, listener=one)

    async def claim() -> None:
        """Claim, of nothing."""
        taken, is_ordinary, _ = await functions.claim_ready(1, 1, ["default"], ["none"], 1)
        assert (taken, is_ordinary) == ([], True)

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


async def test_a_busy_listener_takes_no_more_statements_before_it_listens_on_its_channel(
    dsn: str,
) -> None:
    """Claims of a stream of jobs, one after the other, would keep it from that for good."""
    one = listener(dsn, [])
    with closing(one):
        assert await one.ensure()
        assert one.idle is not None
        napping = Deferred.fromCoroutine(one.idle.query("select pg_sleep(0.1)"))
        assert not await one.ensure(channel("txqueue_run_7"))
        assert not one.listens_on(channel("txqueue_run_7"))
        await napping
        assert one.idle is None
        assert not await one.ensure(channel("txqueue_run_7"))
        await eventually(lambda: one.listens_on(channel("txqueue_run_7")))
        assert one.idle is not None


async def test_an_old_listener_is_replaced(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the connections of a pool are, but not while a statement runs on it."""
    monkeypatch.setattr("txqueue.store.driver.listener.LONGEST_LIFE", 0.0)
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


@pytest.mark.parametrize("does_claim", [False, True])
async def test_a_silent_connection_is_replaced(
    database18: str, folder: Path, monkeypatch: pytest.MonkeyPatch, does_claim: bool
) -> None:
    """The network lost it: neither a notification arrives nor the answer to a statement."""
    monkeypatch.setattr("txqueue.store.driver.listener.TESTED", 0.05)
    monkeypatch.setattr("txqueue.store.driver.listener.SILENT", 0.05)
    real = socket_of(database18)
    assert real is not None
    heard: list[bool] = []
    with Proxy(Address(real), Address(folder / ".s.PGSQL.5432")) as proxy:
        one = listener(redirected(database18, folder / ".s.PGSQL.5432"), heard)
        pool = ConnectionPool(running_reactor(), database18, 1, "notifying")
        with closing(pool), closing(one):
            assert await one.ensure()
            proxy.swallow(Direction.DOWN)
            await pool.query("notify txqueue")
            await eventually(lambda: proxy.counts["swallowed"])
            proxy.heal(forgets=True)
            assert one.idle is not None
            errors: list[Failure] = []
            if does_claim:
                Deferred.fromCoroutine(one.idle.query("select 1")).addErrback(errors.append)
            await eventually(lambda: silent(one))
            assert one.idle is None
            assert await one.ensure()
            assert not heard
            await pool.query("notify txqueue")
            await eventually(lambda: heard)
            assert [failure.type for failure in errors] == [DatabaseUnavailable] * does_claim


async def test_a_listener_notifies_itself_now_and_then(dsn: str) -> None:
    """The answer proves that notifications pass; it is passed on to no other."""
    heard: list[str] = []
    one = Listener(running_reactor(), dsn, "txqueue", heard.extend, heard.extend)
    pool = ConnectionPool(running_reactor(), dsn, 1, "notifying")
    with closing(one), closing(pool):
        await one.ensure(channel("txqueue_run_1"))
        await eventually(lambda: one.is_proven(60))
        assert not one.is_deaf
        assert heard == []
        await pool.query("notify txqueue, 'jobs'")
        await eventually(lambda: heard)
        assert heard == ["jobs"]
        assert one.idle is not None
        await one.idle.query('unlisten "txqueue_run_1"')
        assert one.listens_on(channel("txqueue_run_1"))
        await eventually(lambda: is_deaf(one))
        assert not one.is_proven(1)
        # Even while the next probe is on its way; no job may be assigned meanwhile by credit.
        await one.check(tested=0.0, probed=0.0)
        assert one.is_deaf
        assert not one.listens_on(channel("txqueue_run_1"))


async def test_a_listener_is_not_relied_on_before_a_notification_has_arrived(dsn: str) -> None:
    """Jobs that were assigned meanwhile by notification would wait for the reconciliation."""
    unheard = OwnChannel("select 'run_1'", "notify run_1, 'probe'; select 'run_1'")
    one = listener(dsn, [])
    with closing(one):
        await one.ensure(unheard)
        assert not await one.ensure(unheard)
        assert not one.listens_on(unheard)


async def is_deaf(one: Listener) -> bool:
    """Whether it finds itself deaf, tested each time."""
    await one.check(tested=0.0, probed=1.5)
    return one.is_deaf


async def silent(one: Listener) -> bool:
    """Whether a check finds it silent."""
    return not await one.check()


async def test_a_slow_statement_is_no_silence(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server executes it, the connection stays."""
    monkeypatch.setattr("txqueue.store.driver.listener.SILENT", 0.05)
    one = listener(dsn, [])
    with closing(one):
        assert await one.ensure()
        assert one.idle is not None
        napping = Deferred.fromCoroutine(one.idle.query("select pg_sleep(0.5)"))
        checks = 0
        while not napping.called:
            assert await one.check()
            checks += 1
            await pause(0.02)
        assert checks > 2
        await napping


async def interrupted(_: Connection) -> bool:
    """Fail as a statement that an operator cancels."""
    raise Refused("interrupted")


async def test_a_node_listens_on_the_channel_of_its_run(dsn: str) -> None:
    """In place of that of the run before, again after a loss, and not while it is busy."""
    heard: list[str] = []
    own: list[str] = []
    one = Listener(running_reactor(), dsn, "txqueue", heard.extend, own.extend)
    pool = ConnectionPool(running_reactor(), dsn, 1, "notifying")

    async def is_heard(name: str) -> bool:
        """Whether a notification on this channel arrives before one on the common channel."""
        heard.clear()
        own.clear()
        await pool.query("select pg_notify(%s, 'its')", (name,))
        await pool.query("notify txqueue, 'common'")
        await eventually(lambda: heard == ["common"])
        return own == ["its"]

    with closing(pool), closing(one):
        assert await one.ensure(channel("run_1"))
        await eventually(lambda: one.listens_on(channel("run_1")))
        assert await is_heard("run_1")
        assert one.idle is not None
        napping = Deferred.fromCoroutine(one.idle.query("select pg_sleep(0.1)"))
        assert not await one.ensure(channel("run_2"))
        assert not one.listens_on(channel("run_2"))
        await napping
        assert not await one.ensure(channel("run_2"))
        assert (one.listens_on(channel("run_1")), one.listens_on(channel("run_2"))) == (False, True)
        assert [await is_heard("run_1"), await is_heard("run_2")] == [False, True]
        await pool.query(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'txqueue listener'"
        )
        await eventually(lambda: not one.listens_on(channel("run_2")))
        assert await one.ensure(channel("run_2"))
        assert await is_heard("run_2")
