"""A proxy that does harm: it stands in front of PostgreSQL, or of a peer's port, in this process.

It cuts, refuses, holds, swallows, and drops single messages, when it is told to; and it counts
everything it does, for a fault that nobody has counted may not have happened.
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

from txqueue.torture.frames import NOTIFICATION, READY, Frames, kind_of, statement_of

__all__ = ["Address", "Cut", "Direction", "Proxy"]

T = TypeVar("T")
_CHUNK = 1 << 16
_PATIENCE = 30.0
# With it, closing sends RST: the other side learns of it as of a host that knows nothing of it.
_LINGER_NONE = struct.pack("ii", 1, 0)


class Direction(Enum):
    """Which way bytes go."""

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
    """When to cut a connection: as a statement passes.

    Attributes:
        matches: Tells of a statement, in lower case, whether it is one to be cut at.
        is_after: Whether the server executes it and only its answer is lost; else it never gets it.
        every: Every how-many'th of them.
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
    held: asyncio.Event = field(factory=asyncio.Event)

    def end(self, *, reset: bool) -> None:
        """Close both sides."""
        for writer in (self.client, self.server):
            its_socket = writer.get_extra_info("socket")
            # One side may have closed by itself a moment ago.
            is_open = its_socket is not None and its_socket.fileno() != -1
            if reset and is_open and its_socket.family != socket.AF_UNIX:
                its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            writer.transport.abort()


@define(eq=False)
class _Late:
    """What is written later to one side, in the order in which it came."""

    writer: asyncio.StreamWriter
    waiting: deque[bytes] = field(factory=deque)
    due: float = 0.0

    def write(self, data: bytes, loop: asyncio.AbstractEventLoop, lateness: float) -> None:
        """Write it after all that waits, and up to some seconds late."""
        self.due = max(self.due, loop.time() + random.uniform(0, lateness))
        self.waiting.append(data)
        loop.call_at(self.due, self._write)

    def _write(self) -> None:
        data = self.waiting.popleft()
        # The connection may have ended since.
        if not self.writer.is_closing():
            self.writer.write(data)


class Proxy:
    """Passes on what comes, and misbehaves on demand; a context manager.

    Args:
        target: Where the server listens.
        listen: A unix socket to listen on; without a path, a free port of this host.
        speaks_postgres: Whether single messages are understood: needed by `cut_at`
            and `drops_notifications`.

    Attributes:
        refuses: Whether connections are closed as they come.
        drops_notifications: Whether wake-ups of the server are lost.
        lateness: Seconds by which bytes come late at most, each time another part of it, so that
            those of two connections overtake one another; of a server that is not PostgreSQL.
        counts: What has happened: ``accepted``, ``refused``, ``failed`` (the server was away),
            ``cut``, ``swallowed`` (bytes), ``held``, ``notifications``, ``before``, ``after``,
            ``late``.
        accepted_at: When each connection came, on the monotonic clock.
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
        self.counts: Counter[str] = Counter()
        self.accepted_at: list[float] = []

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        self._server = self._do(self._listening())
        return self

    def __exit__(self, *error: object) -> None:
        """Listen no more, and end every connection."""
        self._server.get_loop().call_soon_threadsafe(self._server.close)
        self.cut()
        self._do(_all_ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def open_links(self) -> int:
        """How many connections there are through it."""
        return len(self._links)

    def cut(self, *, reset: bool = True) -> int:
        """End all connections there are; returns how many."""
        return self._do(self._cut_all(reset))

    def swallow(self, *directions: Direction) -> None:
        """Take what comes from now on and give nothing on; both ways unless told which."""
        self._swallows = frozenset(directions) or BOTH

    def hold(self) -> None:
        """Keep what comes from now on until `heal`, as a network does that is cut for a while."""
        self._is_holding = True

    def heal(self, *, forgets: bool = True) -> None:
        """Let everything pass again.

        Args:
            forgets: Whether connections of which bytes were swallowed stay silent for ever, as
                behind a firewall that has lost its table; else they are ended.
        """
        self._do(self._healed(forgets))

    def cut_at(self, cut: Cut | None) -> None:
        """Cut each connection as such a statement passes, from now on; None: no more."""
        self._seen = 0
        self._cut_at = cut

    def rate(self, since: float) -> float:
        """Connections a second since a moment of the monotonic clock."""
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
                if not self._pass(link, way, frames, data, writer):
                    break
                await writer.drain()
        if not (link.is_silent or self._swallows):
            link.end(reset=False)

    async def _gate(self, link: _Link) -> None:
        if self._is_holding:
            self.counts["held"] += 1
            await link.held.wait()

    def _pass(
        self, link: _Link, way: Direction, frames: Frames, data: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        """Write what is to be passed on; tell whether the connection goes on."""
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
        """Whether a message of the client's passes; None: the connection ends here."""
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
        """Whether a message of the server's passes; None: the connection ends here."""
        if link.ends_at_ready:
            return None if kind_of(message) == READY else False
        if self.drops_notifications and kind_of(message) == NOTIFICATION:
            self.counts["notifications"] += 1
            return False
        return True

    async def _cut_all(self, reset: bool) -> int:
        links = list(self._links)
        for link in links:
            link.end(reset=reset)
            link.held.set()
        self.counts["cut"] += len(links)
        return len(links)

    async def _healed(self, forgets: bool) -> None:
        self._is_holding = False
        self._swallows = frozenset()
        for link in list(self._links):
            if link.is_silent and not forgets:
                link.end(reset=True)
            link.held.set()
            link.held = asyncio.Event()


async def _all_ended() -> None:
    """Wait until every other task of the loop has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=_PATIENCE)
