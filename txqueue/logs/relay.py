"""Reads what the other processes of a node write, in a thread: they never wait for a log's reader.

Their standard streams are one pipe. Workers write the lines of the log to it in pieces, each of
which a pipe takes as a whole; all else comes from programs that handlers start, from libraries in C
and from `faulthandler`.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable
from contextlib import suppress
from threading import RLock, Thread
from typing import Final

from twisted.logger import Logger

from txqueue.logs.lines import line_of_output
from txqueue.logs.output import DROPPED

__all__ = ["RELAY", "Relay", "WorkerLines"]

# A piece is: mark, process, mark, its number in the text, mark, the piece, end. No line of the log
# has such characters.
_MARK, _END = b"\x1e", b"\x1d"
_WHOLE_PIECE: Final = re.compile(rb"\x1e(\d+)\x1e(\d+)\x1e([^\x1d\x1e]*)\x1d")
_BEGUN_PIECE: Final = re.compile(rb"\x1e\d*(\x1e\d*(\x1e[^\x1d\x1e]*)?)?\Z")
_PIECE: Final = select.PIPE_BUF - 100
_READ_SIZE: Final = 65_536
# Bytes of a line of other output from which on it is written in parts.
_LONGEST: Final = 4_000
# Seconds in which what is in the pipe must be read at the end: programs that handlers have started
# may keep the pipe open.
_LAST_WORDS: Final = 1.0
# Seconds for which a line of a worker waits for its master, which is stopped if that does not read.
_LONGEST_WAIT: Final = 0.5


class WorkerLines:
    """Sends the lines of a worker to its master, and says how many were dropped.

    Args:
        descriptor: The pipe to the master.
    """

    _log = Logger()

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._wait = _LONGEST_WAIT
        self._dropped = 0
        self.begin_child()
        os.register_at_fork(after_in_child=self.begin_child)

    def begin_child(self) -> None:
        """Forget which thread of the parent was writing: it does not exist in a forked process."""
        self._threads = RLock()

    def write(self, text: str) -> None:
        """Send a text of whole lines, unless the master does not read."""
        with self._threads:
            is_written = self._sent(text.encode("utf-8", "replace"))
        if not is_written:
            self._dropped += 1
        elif self._dropped:
            count, self._dropped = self._dropped, 0
            self._log.warn(DROPPED, count=count)

    def _sent(self, data: bytes) -> bool:
        process = b"%d" % os.getpid()
        for number, start in enumerate(range(0, len(data), _PIECE)):
            parts = [b"", process, b"%d" % number, data[start : start + _PIECE]]
            if not self._send(_MARK.join(parts) + _END):
                return False
        return True

    def _send(self, piece: bytes) -> bool:
        # Without a master, this process ends soon.
        with suppress(OSError, ValueError):
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            # A line after one that has waited in vain does not wait.
            has_room = bool(poll.poll(1000 * self._wait))
            self._wait = _LONGEST_WAIT if has_room else 0.0
            return has_room and os.write(self._descriptor, piece) > 0
        return False


class Relay:
    """Passes lines on to the log of this process.

    Attributes:
        write: Takes formatted lines; None while children have the standard streams of this process.
    """

    def __init__(self) -> None:
        self.write: Callable[[str], object] | None = None
        self._descriptor: int | None = None
        self._pieces: dict[bytes, bytes] = {}
        self._other = b""

    def streams(self) -> dict[int, int]:
        """Return the descriptors that are the standard output and error of a child process."""
        if self.write is None:
            return {1: 1, 2: 2}
        if self._descriptor is None:
            # Not before a daemon has forked.
            reading, self._descriptor = os.pipe()
            self._thread = Thread(target=self._read, args=(reading,), name="relay", daemon=True)
            self._thread.start()
        return {1: self._descriptor, 2: self._descriptor}

    def finish(self) -> None:
        """Write what is left of children that have ended."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
            self._thread.join(_LAST_WORDS)

    def _read(self, reading: int) -> None:
        rest = b""
        while data := os.read(reading, _READ_SIZE):
            rest = self._take(rest + data)
        self._take(rest + b"\n")

    def _take(self, data: bytes) -> bytes:
        """Pass on the lines that are complete; return what may be the beginning of a piece."""
        texts: list[str] = []
        place = 0
        for found in _WHOLE_PIECE.finditer(data):
            texts += self._others(data[place : found.start()], are_ended=True)
            texts += self._completed(*found.groups())
            place = found.end()
        begun = _BEGUN_PIECE.search(data, place)
        end = begun.start() if begun and len(begun[0]) < select.PIPE_BUF else len(data)
        texts += self._others(data[place:end], are_ended=False)
        if texts and self.write is not None:
            self.write("".join(texts))
        return data[end:]

    def _others(self, data: bytes, *, are_ended: bool) -> list[str]:
        """Return lines of other output; the last one may go on, unless a piece follows."""
        *lines, self._other = (self._other + data).split(b"\n")
        if are_ended or len(self._other) > _LONGEST:
            lines, self._other = [*lines, self._other], b""
        return [line_of_output(line.decode("utf-8", "replace")) for line in lines if line]

    def _completed(self, process: bytes, number: bytes, data: bytes) -> list[str]:
        """Return the text that a piece completes, if it does."""
        # A text that its process could not complete is dropped.
        before = b"" if number == b"0" else self._pieces.pop(process, b"")
        if not data.endswith(b"\n"):
            self._pieces[process] = before + data
            return []
        return [(before + data).decode("utf-8", "replace")]


RELAY: Final = Relay()
"""The relay of this process."""
