"""A fault-injecting proxy in front of PostgreSQL or of a peer's port.

On request the proxy closes or refuses connections, holds back or swallows their data, and drops
single messages. It counts each of these, as evidence that the fault happened.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Self, TypeVar

from attrs import define, field, frozen

from txqueue_torture.frames import NOTIFICATION, READY, Frames, message_kind, statement_of

__all__ = ["Address", "Cut", "Direction", "Proxy"]

T = TypeVar("T")
_CHUNK = 1 << 16
_PATIENCE = 30.0
# With this socket option, closing a connection sends RST, as a restarted host would.
_LINGER_NONE = struct.pack("ii", 1, 0)


class Direction(Enum):
    """The direction in which data pass through the proxy."""

    UP = "to the server"
    DOWN = "to the client"


BOTH = frozenset(Direction)


@frozen
class Address:
    """Where a server listens: a unix socket, or a port of this host."""

    path: Path | None = None
    port: int = 0


@frozen
class Cut:
    """At which statements to close the connection that sends one.

    Attributes:
        matches: Returns whether to close at a statement, given in lower case.
        is_after: Whether the server executes the statement and only its answer is lost; if False,
            the server never gets the statement.
        every: Close only at every n-th of the matching statements.
    """

    matches: Callable[[str], bool]
    is_after: bool
    every: int = 1


@define(eq=False)
class _Link:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    is_silent: bool = False
    ends_at_ready: bool = False
    released: asyncio.Event = field(factory=asyncio.Event)

    def end(self, *, reset: bool) -> None:
        """Close both sides."""
        for writer in (self.client, self.server):
            its_socket = writer.get_extra_info("socket")
            # One side may have closed just before.
            is_open = its_socket is not None and its_socket.fileno() != -1
            if reset and is_open and its_socket.family != socket.AF_UNIX:
                its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            writer.transport.abort()


@define(eq=False)
class _Late:
    """Delays the writes to one side of a connection, and keeps their order."""

    writer: asyncio.StreamWriter
    waiting: deque[bytes] = field(factory=deque)
    due: float = 0.0

    def write(self, data: bytes, loop: asyncio.AbstractEventLoop, lateness: float) -> None:
        """Write data after those that wait, with a random delay of up to `lateness` seconds."""
        self.due = max(self.due, loop.time() + random.uniform(0, lateness))
        self.waiting.append(data)
        loop.call_at(self.due, self._write)

    def _write(self) -> None:
        data = self.waiting.popleft()
        # The connection may have ended meanwhile.
        if not self.writer.is_closing():
            self.writer.write(data)


class Proxy:
    """Forwards data, and injects faults on demand; a context manager.

    Args:
        target: Where the server listens.
        listen: The unix socket to listen on; by default a free port of this host.
        speaks_postgres: Whether to parse PostgreSQL's messages, as `cut_at` and
            `drops_notifications` need.

    Attributes:
        refuses: Whether new connections are closed at once.
        drops_notifications: Whether the server's notifications are dropped.
        speed: How many bytes a second a connection takes towards the server; 0 for no limit.
        lateness: The longest random delay of data, in seconds, so that data of one connection
            overtake those of another; not for PostgreSQL.
        counts: How often each event happened: connections ``accepted``, ``refused``, ``failed``
            (the server was unreachable), ``cut`` by `cut`, or by `cut_at` ``before`` or ``after``
            a statement; bytes ``swallowed`` or ``slowed``; data ``held`` or ``late``;
            ``notifications`` dropped.
        accepted_at: When each connection was opened, by the monotonic clock.
    """

    def __init__(
        self, target: Address, listen: Address | None = None, *, speaks_postgres: bool = True
    ) -> None:
        self._target = target
        self._listen = listen or Address()
        self._speaks_postgres = speaks_postgres
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._links: set[_Link] = set()
        self._swallows: frozenset[Direction] = frozenset()
        self._is_holding = False
        self._cut_at: Cut | None = None
        self._seen = 0
        self.refuses = False
        self.drops_notifications = False
        self.lateness = 0.0
        self.speed = 0
        self.counts: Counter[str] = Counter()
        self.accepted_at: list[float] = []

    def __enter__(self) -> Self:
        """Start to listen."""
        self._thread.start()
        self._server = self._do(self._listening())
        return self

    def __exit__(self, *error: object) -> None:
        """Stop listening, and close all connections."""
        self._server.get_loop().call_soon_threadsafe(self._server.close)
        self.cut()
        self._do(_all_ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    @property
    def port(self) -> int:
        """The port on which the proxy listens."""
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def open_links(self) -> int:
        """How many connections are open."""
        return len(self._links)

    def cut(self, *, reset: bool = True) -> int:
        """Close all connections; return how many."""
        return self._do(self._cut_all(reset))

    def swallow(self, *directions: Direction) -> None:
        """Read and drop all data from now on, in both directions unless one is given."""
        self._swallows = frozenset(directions) or BOTH

    def hold(self) -> None:
        """Hold back all data until `heal` is called, as if the network were cut for a while."""
        self._is_holding = True

    def heal(self, *, forgets: bool = True) -> None:
        """Forward all data again.

        Args:
            forgets: Whether connections with swallowed bytes stay silent, as behind a firewall
                that has lost its table of connections; if False, the proxy closes them.
        """
        self._do(self._healed(forgets))

    def cut_at(self, cut: Cut | None) -> None:
        """Close connections at the statements that `cut` describes from now on; None to stop."""
        self._seen = 0
        self._cut_at = cut

    def rate(self, since: float) -> float:
        """Return the accepted connections per second since a time of the monotonic clock."""
        recent = [moment for moment in self.accepted_at if moment >= since]
        return len(recent) / max(time.monotonic() - since, 1e-3)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    async def _listening(self) -> asyncio.Server:
        if self._listen.path is not None:
            return await asyncio.start_unix_server(self._accepted, self._listen.path)
        return await asyncio.start_server(self._accepted, "127.0.0.1", self._listen.port)

    async def _accepted(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self.counts["accepted"] += 1
        self.accepted_at.append(time.monotonic())
        if self.refuses:
            self.counts["refused"] += 1
            client.transport.abort()
            return
        try:
            from_server, server = await self._connected()
        except OSError:
            self.counts["failed"] += 1
            client.transport.abort()
            return
        link = _Link(client, server)
        self._links.add(link)
        ways = (
            self._pump(link, Direction.UP, reader, server),
            self._pump(link, Direction.DOWN, from_server, client),
        )
        await asyncio.gather(*ways)
        link.end(reset=False)
        self._links.discard(link)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._target.path is not None:
            return await asyncio.open_unix_connection(self._target.path)
        return await asyncio.open_connection("127.0.0.1", self._target.port)

    async def _pump(
        self,
        link: _Link,
        way: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        frames = Frames(way is Direction.UP)
        late = _Late(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            while data := await reader.read(_CHUNK):
                await self._gate(link)
                if way in self._swallows or link.is_silent:
                    link.is_silent = True
                    self.counts["swallowed"] += len(data)
                    continue
                if self.lateness or late.waiting:
                    self.counts["late"] += 1
                    late.write(data, self._loop, self.lateness)
                    continue
                if self.speed and way is Direction.UP:
                    await self._slow(len(data))
                if not self._pass(link, way, frames, data, writer):
                    break
                await writer.drain()
        if not (link.is_silent or self._swallows):
            link.end(reset=False)

    async def _slow(self, length: int) -> None:
        self.counts["slowed"] += length
        await asyncio.sleep(length / self.speed)

    async def _gate(self, link: _Link) -> None:
        if self._is_holding:
            self.counts["held"] += 1
            await link.released.wait()

    def _pass(
        self, link: _Link, way: Direction, frames: Frames, data: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        """Forward data as the current faults allow; return whether the connection stays open."""
        if not self._speaks_postgres:
            writer.write(data)
            return True
        judge = self._goes_up if way is Direction.UP else self._goes_down
        for message in frames.fed(data):
            verdict = judge(link, message)
            if verdict is None:
                link.end(reset=True)
                self.counts["cut"] += 1
                return False
            if verdict:
                writer.write(message)
        return True

    def _goes_up(self, link: _Link, message: bytes) -> bool | None:
        """Tell whether to forward a client's message; None to cut the connection."""
        cut = self._cut_at
        if cut is None or not (sql := statement_of(message).lower()) or not cut.matches(sql):
            return True
        self._seen += 1
        if self._seen % cut.every:
            return True
        self.counts["after" if cut.is_after else "before"] += 1
        link.ends_at_ready = cut.is_after
        return True if cut.is_after else None

    def _goes_down(self, link: _Link, message: bytes) -> bool | None:
        """Tell whether to forward a server's message; None to cut the connection."""
        if link.ends_at_ready:
            return None if message_kind(message) == READY else False
        if self.drops_notifications and message_kind(message) == NOTIFICATION:
            self.counts["notifications"] += 1
            return False
        return True

    async def _cut_all(self, reset: bool) -> int:
        links = list(self._links)
        for link in links:
            link.end(reset=reset)
            link.released.set()
        self.counts["cut"] += len(links)
        return len(links)

    async def _healed(self, forgets: bool) -> None:
        self._is_holding = False
        self._swallows = frozenset()
        for link in list(self._links):
            if link.is_silent and not forgets:
                link.end(reset=True)
            link.released.set()
            link.released = asyncio.Event()


async def _all_ended() -> None:
    """Wait until all other tasks of the event loop have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=_PATIENCE)
