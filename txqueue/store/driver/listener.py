"""Listens for the database's notifications, and reconnects after each loss."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from random import uniform
from typing import Any

from attrs import define, frozen
from psycopg2.extensions import Notify
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.task import deferLater

from txqueue.errors import ConfigurationError
from txqueue.store.driver.connection import Connection
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.driver.reconnecting import ReconnectBackoff, SlowHosts
from txqueue.store.driver.session_bounds import KEPT_ALIVE, LONGEST_LIFE

# Seconds after which a statement without an answer counts as lost.
PATIENCE = 10.0
# Seconds after which a test notification counts as missing.
HEARS_WITHIN = 2.0
# Seconds without an answer after which a connection is tested. Seconds after which a statement that
# the server does not execute shows that its connection is silent: open, but no data pass. Seconds
# in which an answer arrives that the server has just sent.
TESTED, SILENT, ARRIVING = 1.0, 0.8, 0.1
# The text of the notification by which a listener tests itself, and seconds between two tests.
PROBE, PROBED = "probe", 10.0


@frozen
class OwnChannel:
    """A channel of which only its listener and the server know the name.

    Attributes:
        listen: The statement that listens on it, and returns its name; null for none.
        probe: The same, which also sends it the text `PROBE`.
    """

    listen: str
    probe: str


@define(eq=False, repr=False, slots=False)
class Listener:
    """A connection that listens on one channel, and may run statements while it is idle.

    Args:
        reactor: Watches the socket.
        dsn: A libpq URI or keyword string.
        channel: The channel's name; a checked identifier.
        receive: Called with the texts of its notifications, those that arrive together at once.
        receive_own: Called with those of the own channel.
        patience: Seconds after which a statement without an answer counts as lost.
        session: Server settings for the session; None for those of a connection that only listens.
        backoff: Fails attempts to connect for a short time after a failed one.
    """

    _reactor: IStoreReactor
    _dsn: str
    _channel: str
    _receive: Callable[[Sequence[str]], None]
    _receive_own: Callable[[Sequence[str]], None] = lambda _: None
    _patience: float = PATIENCE
    _session: Mapping[str, str] | None = None
    _backoff: ReconnectBackoff | None = None

    def __attrs_post_init__(self) -> None:
        self._session = KEPT_ALIVE if self._session is None else self._session
        self._slow_hosts = SlowHosts() if self._backoff is None else self._backoff.slow_hosts
        self._connection: Connection | None = None
        self._is_ready = False
        self._is_pooled = False
        # The own channel, and its name; empty if there is none.
        self._own: OwnChannel | None = None
        self._own_name = ""
        # Whether the own channel is to change as soon as the connection is idle.
        self._is_changing = False
        self._longest_life = LONGEST_LIFE * uniform(0.8, 1.0)
        self._awaited: Deferred[bool] | None = None
        # When the last probe was sent, when the last one arrived, and when the first one after that
        # was sent.
        self._probed_at = self._proven_at = float("-inf")
        self._unproven_at = float("inf")

    async def ensure(self, own: OwnChannel | None = None) -> bool:
        """Reconnect if necessary; return whether notifications may have been missed.

        Args:
            own: A second channel to listen on, in place of the former one; None for none.

        Raises:
            DatabaseUnavailable: When no connection can be made.
            ConfigurationError: When the DSN leads through a pooler that drops notifications.
        """
        working = self._working
        if working is not None and not (working.age > self._longest_life and working.is_idle):
            self._is_changing = own != self._own
            if self._is_changing and working.is_idle:
                await self._change_channel(working, own)
            return False
        self.close()
        self._connection = connection = await self._open()
        connection.on_notify(self._heard)
        await connection.query(f'listen "{self._channel}"')
        await self._change_channel(connection, own)
        self._is_pooled = await connection.is_pooled()
        if self._is_pooled and not await self._hears():
            await self._give_up(connection)
        self._is_ready = True
        return True

    async def check(self, tested: float = TESTED, probed: float = PROBED) -> bool:
        """Close the connection if it is silent; return whether it listens.

        Args:
            tested: Seconds without an answer after which an idle connection is tested.
            probed: Seconds after which such a test is a probe: a notification to itself.

        Raises:
            DatabaseUnavailable: When no other connection can be made to ask the server.
        """
        working = self._working
        if working is not None and working.is_idle and working.quiet >= tested:
            self._test(working, probed)
        if working is not None and await self._is_silent(working):
            self.close()
        return self._working is not None

    def is_proven(self, within: float) -> bool:
        """Whether a probe has arrived within some seconds."""
        return self._working is not None and self._reactor.seconds() - self._proven_at <= within

    @property
    def is_deaf(self) -> bool:
        """Whether no probe has arrived since one was sent, a second ago or more."""
        return self._reactor.seconds() - self._unproven_at >= TESTED

    @property
    def idle(self) -> Connection | None:
        """The connection if it listens and runs no statement, for one at a time; None otherwise.

        None, too, while its second channel is to change, which would wait as long as others find
        the connection idle first.
        """
        working = self._working
        if working is None or self._is_changing:
            return None
        return working if working.is_idle else None

    @property
    def _working(self) -> Connection | None:
        """The connection if it listens and is not broken; None otherwise."""
        connection = self._connection
        if connection is None or not self._is_ready or connection.is_dead:
            return None
        return connection

    def listens_on(self, own: OwnChannel) -> bool:
        """Whether notifications on this second channel arrive, as the last probe has shown."""
        has_channel = self._working is not None and own == self._own and self._own_name != ""
        return has_channel and self._proven_at > float("-inf") and not self.is_deaf

    async def _is_silent(self, working: Connection) -> bool:
        """Whether neither statements nor notifications pass."""
        if self._is_pooled or working.waited < SILENT or await self._is_executed(working):
            return False
        await deferLater(self._reactor, ARRIVING)
        return working.waited >= SILENT

    def _test(self, working: Connection, probed: float) -> None:
        """Send a statement; later checks see whether its answer, and its notification, arrived."""
        is_due = self._reactor.seconds() - self._probed_at >= probed
        if self._own is not None and is_due:
            asking: Coroutine[Any, Any, object] = self._probe(working, self._own)
        else:
            asking = working.query("select 1")
        Deferred.fromCoroutine(asking).addErrback(lambda _: None)

    async def _probe(self, working: Connection, own: OwnChannel) -> None:
        now = self._reactor.seconds()
        self._probed_at, self._unproven_at = now, min(now, self._unproven_at)
        name = await _name_by(working, own.probe)
        if own == self._own:
            self._own_name = name

    async def _is_executed(self, working: Connection) -> bool:
        """Ask the server over another connection whether it executes the statement on this one."""
        other = await self._open()
        try:
            return await other.executes_for(working)
        finally:
            other.close()

    async def _change_channel(self, connection: Connection, own: OwnChannel | None) -> None:
        former, self._own, self._own_name = self._own_name, None, ""
        if former:
            # What arrives there is not believed any more, so others may see the name.
            await connection.query(f'unlisten "{former}"')
        if own is not None:
            self._own_name = await _name_by(connection, own.listen)
        self._own = own
        self._is_changing = False
        if own is not None:
            # What is sent there is relied on once this has arrived.
            await self._probe(connection, own)

    async def _open(self) -> Connection:
        connection = Connection(
            self._reactor, "txqueue listener", self._patience, session=self._session
        )
        return await connection.open(self._dsn, self._backoff, self._slow_hosts)

    def _heard(self, notices: Sequence[Notify]) -> None:
        if self._awaited is not None:
            awaited, self._awaited = self._awaited, None
            awaited.callback(True)
        own = [notice.payload for notice in notices if notice.channel == self._own_name]
        if PROBE in own:
            self._proven_at, self._unproven_at = self._reactor.seconds(), float("inf")
            own = [text for text in own if text != PROBE]
        if own:
            self._receive_own(own)
        if texts := [notice.payload for notice in notices if notice.channel == self._channel]:
            self._receive(texts)

    async def _hears(self) -> bool:
        """Test from another connection whether notifications arrive, as a pooler may drop them."""
        other = await self._open()
        awaited = self._awaited = Deferred[bool]()
        try:
            await other.query("select pg_notify(%s, '')", (self._channel,))
        finally:
            other.close()
        try:
            return await awaited.addTimeout(HEARS_WITHIN, self._reactor)
        except TimeoutError:
            self._awaited = None
            return False

    async def _give_up(self, connection: Connection) -> None:
        # Otherwise the pooler would lend the listening backend to another client.
        await connection.query("unlisten *")
        self.close()
        raise ConfigurationError(
            "no notification arrives: the DSN leads through a pooler in transaction mode",
            "work is found by polling, within a second; to be woken at once, give nodes a DSN that"
            " leads to PostgreSQL itself or to a pool in session mode",
        )

    def close(self) -> None:
        """Stop listening."""
        self._is_ready = self._is_changing = False
        self._own, self._own_name = None, ""
        self._probed_at = self._proven_at = float("-inf")
        self._unproven_at = float("inf")
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def _name_by(connection: Connection, statement: str) -> str:
    """Return the name of a channel, which a statement returns; an empty one for null."""
    ((name,),) = await connection.query(statement)
    return name or ""
