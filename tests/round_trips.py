"""Counts the message round trips between clients and PostgreSQL, by a proxy between them.

A round trip begins whenever a client sends something after an answer of the server: what is sent
together costs one, however many statements it has.
"""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

from attrs import define, field
from psycopg2.extensions import make_dsn, parse_dsn

__all__ = ["RoundTrips", "counted"]

_CHUNK: Final = 1 << 16
_GOODBYE: Final = b"X\x00\x00\x00\x04"
_NAME: Final = b"application_name\x00"


@define(eq=False)
class RoundTrips:
    """The round trips of all connections through one proxy.

    Attributes:
        dsn: Leads through the proxy, by a unix socket: nothing is negotiated before the connection.
        by_name: How many there were, by the connection's application name.
        unanswered: The connections whose client waits for an answer.
    """

    dsn: str
    by_name: Counter[str] = field(factory=Counter)
    unanswered: set[object] = field(factory=set)

    def taken(self, *names: str) -> int:
        """Return how many there were since the last call: of these names, by default of all."""
        counts, self.by_name = self.by_name, Counter()
        return sum(counts[name] for name in names or counts)


@define(eq=False)
class _Link:
    """One connection of a client, and the proxy's own to the server."""

    client: socket.socket
    server: socket.socket
    counts: RoundTrips
    name: str = ""
    is_answered: bool = True

    def run(self) -> None:
        """Pass data on in both directions until one side ends the connection."""
        down = Thread(target=self._down)
        with self.client, self.server:
            down.start()
            self._up()
            down.join()

    def _up(self) -> None:
        with self._ending():
            while data := self.client.recv(_CHUNK):
                self._count(data)
                self.server.sendall(data)

    def _down(self) -> None:
        with self._ending():
            while data := self.server.recv(_CHUNK):
                self.is_answered = True
                self.client.sendall(data)
                self.counts.unanswered.discard(self)

    def _count(self, data: bytes) -> None:
        if not self.name and _NAME in data:
            self.name = data.partition(_NAME)[2].partition(b"\x00")[0].decode()
        if self.is_answered and data != _GOODBYE:
            self.is_answered = False
            self.counts.unanswered.add(self)
            self.counts.by_name[self.name] += 1

    @contextmanager
    def _ending(self) -> Iterator[None]:
        with suppress(OSError):
            yield
        self.end()

    def end(self) -> None:
        """End the connection on both sides; harmless if it has ended."""
        for each in (self.client, self.server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def counted(dsn: str) -> Iterator[RoundTrips]:
    """Count the round trips of what connects inside the block.

    Args:
        dsn: A database behind a unix socket.
    """
    parts = parse_dsn(dsn)
    server = f"{parts['host']}/.s.PGSQL.{parts.get('port', '5432')}"
    with TemporaryDirectory(prefix="txqueue-trips-") as folder, socket.socket(socket.AF_UNIX) as at:
        at.bind(str(Path(folder) / ".s.PGSQL.5432"))
        at.listen(50)
        counts = RoundTrips(make_dsn(dsn, host=folder, port="5432"))
        accepting = Thread(target=_accept, args=(at, server, counts))
        accepting.start()
        try:
            yield counts
        finally:
            at.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _accept(listening: socket.socket, server: str, counts: RoundTrips) -> None:
    """Run a link for each connection, in a thread, until the socket listens no longer."""
    running: list[tuple[_Link, Thread]] = []
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(server)
            link = _Link(client, upstream, counts)
            running.append((link, Thread(target=link.run)))
            running[-1][1].start()
    for link, thread in running:
        link.end()
        thread.join()
