"""Connections on a real server: given up in time, cancelled without waiting, tried in turn."""

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg2
import pytest
from psycopg2.extensions import make_dsn
from twisted.internet.defer import CancelledError, Deferred

from tests.waiting import eventually, pause, running_reactor
from txqueue.errors import ConfigurationError, DatabaseUnavailable, Refused
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.driver.connection import Connection
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import complaint, lost
from txqueue.store.driver.listener import Listener
from txqueue.store.driver.raw_connection import OFTEN
from txqueue.store.driver.session_bounds import OF_A_WORKER, of_a_master
from txqueue_torture.needs import lacking
from txqueue_torture.proxy import Address, Proxy
from txqueue_torture.server import Server, dsn_of, pgbouncer
from txqueue_torture.sockets import redirected, socket_of

NAME = "txqueue test"
LONG = "select pg_sleep(600)"
SOON = 5.0


async def connected(dsn: str) -> Connection:
    """A connection of ours."""
    return await Connection(running_reactor(), NAME).open(dsn)


def running_statements(dsn: str) -> int:
    """How many backends run the long statement."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select pid from pg_stat_activity where application_name = %s and query = %s"
            " and state = 'active'",
            (NAME, LONG),
        )
        return len(cursor.fetchall())


@contextmanager
def silent(folder: Path) -> Iterator[str]:
    """A host that takes connections and never says a word; gives its folder."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / ".s.PGSQL.5432"))
        listener.listen()
        yield str(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a name short enough for sockets, which other accounts may enter."""
    with tempfile.TemporaryDirectory(prefix="txq-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_who_never_answers_is_given_up(folder: Path) -> None:
    """A connection that is taken and not answered fails after the time that the DSN gives."""
    began = time.monotonic()
    with silent(folder) as host, pytest.raises(DatabaseUnavailable, match="within 1 s"):
        await connected(f"host={host} connect_timeout=1")
    assert time.monotonic() - began >= 1


async def test_a_server_that_closes_the_connection_is_only_an_error(folder: Path) -> None:
    """The attempt fails; no reactor is left with a socket that libpq has closed, and none logs."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / ".s.PGSQL.5432"))
        listener.listen()
        attempt = Deferred.fromCoroutine(connected(f"host={folder} sslmode=disable"))
        await pause(0.01)
        listener.accept()[0].close()
        with pytest.raises(DatabaseUnavailable, match="closed the connection"):
            await attempt


async def test_a_silent_host_does_not_hide_the_next(folder: Path, database18: str) -> None:
    """The next one of the DSN is tried."""
    real = socket_of(database18)
    assert real is not None
    with silent(folder) as host:
        dsn = redirected(database18, real).replace(str(real.parent), f"{host},{real.parent}")
        connection = await connected(f"{dsn} connect_timeout=1")
        assert await connection.query("select 1") == [(1,)]
        connection.close()


async def test_each_host_that_does_not_answer_is_named(folder: Path) -> None:
    """The first one, too, which the last one's reason would hide; in commands likewise."""
    with silent(folder) as host:
        dsn = f"host={host},{folder}-gone connect_timeout=1"
        with pytest.raises(DatabaseUnavailable, match=f"at {host} did not .*; then: .*-gone/"):
            await connected(dsn)
    gone = f"{folder}-a/.*; then: .*{folder}-b/"
    with pytest.raises(DatabaseUnavailable, match=gone):
        connect(f"host={folder}-a,{folder}-b", NAME)


@pytest.mark.parametrize(
    ("hosts", "told", "limit"),
    [(2, "", "3"), (2, "connect_timeout=7", "7"), (1, "", "10")],
    ids=["several", "told", "single"],
)
def test_a_command_gives_up_a_silent_host_as_a_client_does(
    folder: Path, database18: str, hosts: int, told: str, limit: str
) -> None:
    """The time that libpq gives each host."""
    real = socket_of(database18)
    assert real is not None
    listed = ",".join([str(real.parent), str(folder)][:hosts])
    dsn = redirected(database18, real).replace(str(real.parent), listed)
    with closing(connect(f"{dsn} {told}", NAME)) as connection:
        assert connection.info.dsn_parameters["connect_timeout"] == limit


@contextmanager
def silent_beside(address: str, port: int) -> Iterator[None]:
    """A server at another address and the same port, which never answers."""
    with socket.socket() as listener:
        listener.bind((address, port))
        listener.listen()
        yield


async def test_a_silent_address_does_not_hide_the_next(
    database18: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each address of a name has its own time; a statement is cancelled where it runs."""
    real = socket_of(database18)
    assert real is not None
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")],
    )
    with Proxy(Address(real)) as proxy, silent_beside("127.0.0.2", proxy.port):
        dsn = make_dsn(
            database18, host="db.example", port=proxy.port, connect_timeout=1, sslmode="disable"
        )
        connection = await connected(dsn)
        running = Deferred.fromCoroutine(connection.query(LONG))
        await eventually(lambda: running_statements(database18))
        running.cancel()
        with pytest.raises(CancelledError):
            await running
        await eventually(lambda: not running_statements(database18))


async def test_an_attempt_can_be_cancelled(folder: Path) -> None:
    """Cancelling the caller's Deferred ends the attempt."""
    with silent(folder) as host:
        attempt = Deferred.fromCoroutine(connected(f"host={host}"))
        attempt.cancel()
        with pytest.raises(CancelledError):
            await attempt


async def test_cancelling_does_not_wait_for_a_silent_server(folder: Path, database18: str) -> None:
    """The process continues at once, whatever the state of the network."""
    await pause(0)
    timers = len(running_reactor().getDelayedCalls())
    real = socket_of(database18)
    assert real is not None
    own = folder / real.name
    with Proxy(Address(real), Address(own)) as proxy:
        connection = await connected(redirected(database18, own))
        proxy.swallow()
        running = Deferred.fromCoroutine(connection.query("select 1"))
        began = time.monotonic()
        running.cancel()
        with pytest.raises(CancelledError):
            await running
        assert time.monotonic() - began < SOON
        proxy.refuses = True
        proxy.cut()
    # The cancellation request has failed by then, without a report.
    await eventually(lambda: len(running_reactor().getDelayedCalls()) == timers)


async def test_after_a_statement_without_an_answer_the_next_connection_works(
    folder: Path, database18: str
) -> None:
    """It gets the file descriptor of the one that was given up."""
    real = socket_of(database18)
    assert real is not None
    own = folder / real.name
    with Proxy(Address(real), Address(own)) as proxy:
        dsn = redirected(database18, own)
        given_up = await Connection(running_reactor(), NAME, patience=0.3).open(dsn)
        proxy.swallow()
        with pytest.raises(DatabaseUnavailable):
            await given_up.query("select 1")
        proxy.heal()
        connection = await connected(dsn)
        assert await connection.query("select 1") == [(1,)]
        connection.close()


async def test_a_statement_that_is_given_up_ends_on_the_server_too(database18: str) -> None:
    """Otherwise its backend would continue, with its locks, and could still commit."""
    given_up = await Connection(running_reactor(), NAME, patience=0.3).open(database18)
    with pytest.raises(DatabaseUnavailable):
        await given_up.query(LONG)
    await eventually(lambda: running_statements(database18) == 0, SOON)


@pytest.mark.parametrize("session", [of_a_master(7.0), OF_A_WORKER], ids=["master", "worker"])
async def test_a_session_has_its_bounds(database18: str, session: dict[str, str]) -> None:
    """The server enforces them, even if the client or its host dies."""
    connection = await Connection(running_reactor(), NAME, session=session).open(database18)
    with closing(connection):
        rows = await connection.query(
            "select name, setting from pg_settings where name = any (%s)", (list(session),)
        )
    found = dict(rows)
    # A unix socket has no host that may die.
    assert {name for name in found if name.startswith("tcp_")} < set(session)
    assert {name: value for name, value in found.items() if not name.startswith("tcp_")} == {
        name: value for name, value in session.items() if not name.startswith("tcp_")
    }


async def test_what_does_not_fit_into_the_socket_at_once_arrives(database18: str) -> None:
    """A statement and its answer of many megabytes."""
    connection = await connected(database18)
    with closing(connection):
        text = "x" * 20_000_000
        assert await connection.query("select %s || 'y'", (text,)) == [(text + "y",)]


async def test_a_notification_is_received_whenever_it_arrives(database18: str) -> None:
    """With the answer of a statement, and while nothing is asked."""
    heard: list[str] = []
    connection, other = await connected(database18), await connected(database18)
    with closing(connection), closing(other):
        connection.on_notify(lambda notices: heard.extend(each.payload for each in notices))
        await connection.query("listen told")
        await connection.query("notify told, 'with an answer'")
        await eventually(lambda: heard == ["with an answer"], SOON)
        await other.query("notify told, 'in silence'")
        await eventually(lambda: heard == ["with an answer", "in silence"], SOON)


async def test_a_caller_may_close_or_query_again_on_an_answer(database18: str) -> None:
    """The answer arrives inside the reactor's own call."""
    connection = await connected(database18)

    async def ask_and_close() -> object:
        with pytest.raises(psycopg2.errors.DivisionByZero):
            await connection.query("select 1 / 0")
        await connection.query("select 1")
        connection.close()
        return connection.is_dead

    assert await Deferred.fromCoroutine(ask_and_close())
    after = await connected(database18)
    with closing(after):
        assert await after.query("select 2") == [(2,)]


async def test_an_idle_connection_that_the_server_ends_is_dead(database18: str) -> None:
    """It is watched while idle; another connection gets its file descriptor and works."""
    connection, other = await connected(database18), await connected(database18)
    with closing(connection), closing(other):
        [(pid,)] = await connection.query("select pg_backend_pid()")
        await other.query("select pg_terminate_backend(%s)", (pid,))
        await eventually(lambda: connection.is_dead, SOON)
        after = await connected(database18)
        with closing(after):
            assert await after.query("select 2") == [(2,)]
            with pytest.raises(DatabaseUnavailable):
                await connection.query("select 1")


async def test_the_reactor_forgets_a_socket_that_was_closed_under_it(database18: str) -> None:
    """By libpq, before the reactor notices: another socket gets its descriptor."""
    connection = await connected(database18)
    with closing(connection):
        [(pid,)] = await connection.query("select pg_backend_pid()")
        with closing(psycopg2.connect(database18)) as other, other.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(%s, 5000)", (pid,))
        for _ in range(2):
            connection._driver.doRead()
        assert connection.is_dead
        connection.close()
        after = await connected(database18)
        with closing(after):
            assert await after.query("select 2") == [(2,)]


async def test_a_statement_that_the_server_gives_up_harms_no_connection(database18: str) -> None:
    """It is no cancellation of ours."""
    connection = await connected(database18)
    with closing(connection):
        await connection.query("set statement_timeout = 10")
        with pytest.raises(psycopg2.errors.QueryCanceled):
            await connection.query(LONG)
        assert await connection.query("select 2") == [(2,)]


async def test_the_server_gives_up_a_masters_statement_before_the_master(database18: str) -> None:
    """The error says that it took too long, not that the database does not answer."""
    connection = Connection(running_reactor(), NAME, 1.0, session=of_a_master(1.0))
    await connection.open(database18)
    with closing(connection):
        with pytest.raises(psycopg2.errors.QueryCanceled) as caught:
            await connection.query(LONG)
        assert "the server gave up a statement" in (complaint(caught.value) or "")
        assert await connection.query("select 2") == [(2,)]


async def test_a_transaction_that_is_left_open_is_not_lent_on(database18: str) -> None:
    """A caller did not await its statement: the work of other callers is committed nevertheless."""
    pool = ConnectionPool(running_reactor(), database18, 1, NAME)

    async def hasty() -> None:
        async with pool.transaction() as transaction:
            late = Deferred.fromCoroutine(transaction.query("select pg_sleep(0.1)"))
            late.addErrback(lambda _: None)

    try:
        with pytest.raises(psycopg2.ProgrammingError):
            await hasty()
        await pool.query("create temp table kept ()")
        assert await pool.query("select now() = statement_timestamp()") == [(True,)]
    finally:
        pool.close()


async def test_a_caller_that_is_thrown_away_gets_no_answer(database18: str) -> None:
    """As when the reactor ends before the answer: its connection is closed, no error is left."""
    pool = ConnectionPool(running_reactor(), database18, 1, NAME)
    late: list[object] = []
    try:
        await pool.query("select 1")
        asking = pool.query(LONG)
        Deferred.fromCoroutine(asking).addBoth(late.append)
        asking.close()
        assert late == []
        assert await pool.query("select 2") == [(2,)]
    finally:
        pool.close()


async def test_a_hosts_name_is_looked_up(database18: str) -> None:
    """The connection is made to the addresses that are found."""
    real = socket_of(database18)
    assert real is not None
    given = psycopg2.extensions.parse_dsn(database18)
    with Proxy(Address(real), speaks_postgres=False) as proxy:
        given |= {"host": "localhost", "port": str(proxy.port)}
        connection = await connected(psycopg2.extensions.make_dsn(**given))
        with closing(connection):
            assert await connection.query("select 1") == [(1,)]


async def test_a_server_that_takes_no_writes_is_left(database18: str) -> None:
    """It may be a standby by now: the connection is given up, so that the next finds another."""
    connection = await connected(database18)
    await connection.query("set default_transaction_read_only = on")
    with pytest.raises(DatabaseUnavailable, match="target_session_attrs=read-write"):
        await connection.query("create table written ()")
    assert connection.is_dead
    connection.close()


@pytest.fixture
def pooled(folder: Path) -> Iterator[Server]:
    """A server for a pooler to stand before."""
    missing = lacking(["pgbouncer"])
    if missing is not None and os.environ.get("TXQUEUE_TEST_REQUIRE") != "1":
        pytest.skip(missing)
    with Server(folder / "pg") as server:
        yield server


def listener(dsn: str, heard: list[bool]) -> Listener:
    """A listener behind a pooler."""
    return Listener(running_reactor(), dsn, "txqueue", lambda _: heard.append(True))


async def test_a_swallowed_error_refuses_a_commit_with_a_last_statement(database18: str) -> None:
    """As it does a bare commit; the last statement is not sent, whose own error would hide it."""
    pool = ConnectionPool(running_reactor(), database18, 1, NAME)

    async def swallowing() -> None:
        async with pool.transaction(lambda: ("select 1", ())) as transaction:
            with suppress(psycopg2.Error):
                await transaction.query("select 1 / 0", translate=lost)

    try:
        with pytest.raises(Refused, match="a statement in it had failed"):
            await swallowing()
        assert await pool.query("select 1") == [(1,)]
    finally:
        pool.close()


async def test_a_listener_behind_transactions_says_that_it_is_deaf(
    pooled: Server, folder: Path
) -> None:
    """It would never receive a notification: PgBouncer lends its session to others."""
    with pgbouncer(pooled, folder / "pb", "transaction") as pooler:
        one = listener(dsn_of(pooler), [])
        with pytest.raises(ConfigurationError, match="pooler in transaction mode"):
            await one.ensure()
        one.close()
    with pooled.session() as session:
        channels = "select count(*) from pg_listening_channels()"
        assert session.value(channels) == 0


async def test_a_listener_behind_a_session_pooler_receives_notifications(
    pooled: Server, folder: Path
) -> None:
    """The numbers of the backends differ there too, and it is no harm."""
    heard: list[bool] = []
    with pgbouncer(pooled, folder / "pb", "session") as pooler:
        one = listener(dsn_of(pooler), heard)
        assert await one.ensure()
        heard.clear()
        with pooled.session() as session:
            session.rows("notify txqueue")
        await eventually(lambda: heard)
        one.close()


async def test_nothing_is_prepared_behind_a_pooler(pooled: Server, folder: Path) -> None:
    """The next transaction may be in a session that has prepared nothing."""
    sum_of = "select %s::integer + %s::integer"
    with pgbouncer(pooled, folder / "pb", "transaction") as pooler:
        connection = await connected(dsn_of(pooler))
        with closing(connection):
            for number in range(2 * OFTEN):
                assert await connection.query_often(sum_of, (number, 1)) == [(number + 1,)]
            assert await connection.query("select name from pg_prepared_statements") == []


async def test_an_attempt_that_the_server_refuses_logs_nothing(dsn: str) -> None:
    """Its error is the caller's; the test fails if a failure was logged."""
    for _ in range(30):
        with pytest.raises(DatabaseUnavailable, match="does not exist"):
            await connected(f"{dsn} dbname=never_there")
