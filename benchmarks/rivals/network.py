"""A network between a server and its clients: ``python -m benchmarks.rivals.network SOCKET MS``.

Listens on a free port of this host and prints it. Forwards connections to the server's unix
socket, and delays what passes by half of the round trip in each direction, however much passes.
"""

from __future__ import annotations

import asyncio
import ctypes
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

__all__ = ["Way", "far_port"]

# As many bytes of a connection may be on their way in each direction.
MOST = 1 << 22
# Of Linux's prctl(2).
PR_SET_TIMERSLACK = 29


class Way(asyncio.Protocol):
    """One direction of a connection: what it receives is written to `other` later.

    Args:
        delay: How many seconds later.
    """

    transport: asyncio.Transport
    other: Way

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._passing: deque[bytes] = deque()
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(MOST)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Pass data on, after those that came before."""
        self._passing.append(data)
        loop = asyncio.get_running_loop()
        loop.call_at(loop.time() + self._delay, self._pass)

    def _pass(self) -> None:
        self.other.transport.write(self._passing.popleft())

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Close the other side, too, once all has passed."""
        loop = asyncio.get_running_loop()
        loop.call_at(loop.time() + self._delay, self._close)

    def _close(self) -> None:
        # A server's side that is still opening is closed when it is open.
        if self.other.is_open:
            self.other.transport.close()

    def pause_writing(self) -> None:
        """Take no more than the reader of this side takes."""
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Take data again."""
        self.other.transport.resume_reading()


class Near(Way):
    """The client's side: opens the server's before it reads."""

    def __init__(self, delay: float, server: str) -> None:
        super().__init__(delay)
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the server."""
        super().connection_made(transport)
        self.transport.pause_reading()
        self.other = Way(self._delay)
        self.other.other = self
        self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: self.other, self._server)
        except OSError:
            self.transport.abort()
        else:
            self._opened()

    def _opened(self) -> None:
        if self.transport.is_closing():
            self.other.transport.abort()
        else:
            self.transport.resume_reading()


async def serve(server: str, delay: float) -> None:
    """Forward connections until this process is stopped."""
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Near(delay, server), "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


@contextmanager
def far_port(server: Path, milliseconds: float) -> Iterator[int]:
    """Run one in a process of its own; gives the port at which the server seems far away.

    Args:
        server: The unix socket of the server.
        milliseconds: The round trip.
    """
    line = [sys.executable, "-m", "benchmarks.rivals.network", str(server), str(milliseconds)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def use_exact_timers() -> None:
    """Keep Linux from ending waits 50 us late, so that it can end several at a time."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1))


def main(server: str, milliseconds: float) -> None:
    """Serve with a loop whose timers are exact: epoll's are whole milliseconds."""
    use_exact_timers()
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(serve(server, milliseconds / 2000))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
