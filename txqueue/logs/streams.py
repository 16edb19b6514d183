"""What the processes of a node write: read and written in threads, so that no caller waits for the
reader of the log, or a disk.

Their standard streams are one pipe. Workers write the lines of the log to it in pieces, each of
which a pipe takes as a whole; all else comes from programs that handlers start, from libraries in C
and from `faulthandler`.
"""

from __future__ import annotations

import io
import os
import re
import select
import threading
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from threading import RLock, Thread
from typing import Any, Final, cast

from twisted.logger import Logger, LogLevel

from txqueue.logs.lines import RUN_FIELDS, line_of_output
from txqueue.model.run_log import RUNNING, PrintedLine, log_fields, log_of
from txqueue.policy.endings.log_lines import LONGEST_MESSAGE

# Characters that wait for the reader; what does not fit is dropped. Other processes use half.
MOST_KEPT: Final = 2**20
# Seconds for which a line is waited for where the reactor does not run, and for which lines of
# other processes wait for room.
PATIENCE, RELAY_PATIENCE = 0.1, 1.0
DROPPED: Final = (
    "{count} lines of the log were dropped, as they could not be written: its reader has not read"
    " them in time, or a disk is full"
)
"""The text of the line that says how many lines were dropped."""
_log = Logger()


class LogOutput:
    """A bounded buffer of lines, and the thread that writes them.

    Lines that do not fit, or that cannot be written, are dropped; the next line that can be says
    how many.

    Attributes:
        sink: Writes a text.
        is_awaited: Whether callers wait for their lines, briefly: before the reactor runs, and
            after, when the process may end at any time.
        program: The options of the program that runs the reactor.
    """

    def __init__(self, sink: Callable[[str], object]) -> None:
        self.sink = sink
        self.is_awaited = True
        self.program: Mapping[str, Any] = {}
        self.begin_process()

    def begin_process(self) -> None:
        """Begin without a thread and without lines: those of a parent process are its own."""
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, Callable[[], object]]] = deque()
        self._kept = self._dropped = 0
        self._wait = RELAY_PATIENCE
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Write a text of whole lines soon, or drop it."""
        self.call(lambda: self.sink(text), text)

    def call(self, action: Callable[[], object], text: str = "") -> None:
        """Call a function between two lines, or as the one that writes a text."""
        with self._changed:
            if self._kept + len(text) > MOST_KEPT:
                self._drop(text)
                return
            self._waiting.append((text, action))
            self._kept += len(text)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            if self.is_awaited and threading.current_thread() is not self._thread:
                self._changed.wait_for(self._is_empty, PATIENCE)

    def pass_on(self, text: str) -> None:
        """Write a text of other processes, which wait for a reader that is slow, but not for one
        that does not read.
        """
        with self._changed:
            has_room = self._changed.wait_for(lambda: self._kept < MOST_KEPT // 2, self._wait)
            self._wait = RELAY_PATIENCE if has_room else 0.0
            if not has_room:
                self._drop(text)
        if has_room:
            self.write(text)

    def _drop(self, text: str) -> None:
        self._dropped += text.count("\n")

    def finish(self, seconds: float) -> None:
        """Wait until all lines are written, but not longer than some seconds."""
        self.is_awaited = True
        with self._changed:
            self._changed.wait_for(self._is_empty, seconds)

    def _is_empty(self) -> bool:
        return not self._waiting

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                text, action = self._waiting[0]
            is_written = _done(action)
            if count := self._count(text, is_written=is_written):
                _log.warn(DROPPED, count=count)
            with self._changed:
                self._waiting.popleft()
                self._kept -= len(text)
                self._changed.notify_all()

    def _count(self, text: str, *, is_written: bool) -> int:
        """Return how many dropped lines to report now: none before there is room for the line."""
        with self._changed:
            if not is_written:
                self._drop(text)
                return 0
            count = self._dropped if len(self._waiting) == 1 else 0
            self._dropped -= count
            return count


def _done(action: Callable[[], Any]) -> bool:
    with suppress(Exception):
        return action() is not False
    return False


OUTPUT: Final = LogOutput(lambda text: os.write(2, text.encode("utf-8", "replace")))
"""The output of this process."""
# A daemon forks after its first lines.
os.register_at_fork(after_in_child=OUTPUT.begin_process)


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


LONGEST_UNFINISHED: Final = LONGEST_MESSAGE // 2
"""From this length on, a text is a line without a line break: with more, it would be cut."""


class UnfinishedLine:
    """What a run has printed on a stream since its last line break, or a thread outside of runs.

    Args:
        write: Writes a line to the log.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._text = ""
        # Threads of one run share its line, and the run may end while one prints.
        self._lock = threading.RLock()

    def add(self, text: str) -> None:
        """Add a text, and write the lines that it ends."""
        with self._lock:
            *lines, rest = (self._text + text).split("\n")
            if len(rest) >= LONGEST_UNFINISHED:
                lines, rest = [*lines, rest], ""
            self._text = rest
        for line in lines:
            self._write(line)

    def end(self) -> None:
        """Write what there is, as no more of the line comes."""
        with self._lock:
            rest, self._text = self._text, ""
        if rest:
            self._write(rest)

    # For a thread that ends, and a run that prints after its end.
    __del__ = end


def printed_lines(name: str, descriptor: int) -> io.TextIOWrapper:
    """Return a standard stream: each line goes to the log, with the fields of its run.

    Args:
        name: ``stdout`` or ``stderr``, which becomes the logger's name.
        descriptor: The stream's descriptor, for programs that a handler starts.
    """
    # It has no buffer: another thread or run must not write what this one prints.
    return io.TextIOWrapper(
        cast("Any", PrintedBytes(name, descriptor)),
        encoding="utf-8",
        errors="replace",
        write_through=True,
    )


class PrintedBytes(io.RawIOBase):
    """What takes the bytes of a standard stream, and logs their lines.

    Args:
        name: ``stdout`` or ``stderr``.
        descriptor: What `fileno` returns.
    """

    mode = "w"

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = f"<{name}>"
        self._log = Logger(namespace=name)
        self._descriptor = descriptor
        self._outside_runs = threading.local()

    def fileno(self) -> int:
        """Return the stream's descriptor; what is written to it does not name its run."""
        return self._descriptor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write a text in UTF-8; return its length in bytes."""
        text = bytes(data)
        self._unfinished_line().add(text.decode("utf-8", "replace"))
        return len(text)

    def end_line(self) -> None:
        """Write what this thread has printed outside of runs without a line break."""
        line = self._outside_runs.__dict__.get(self.name)
        if line is not None:
            line.end()

    def _unfinished_line(self) -> PrintedLine:
        run = RUNNING.get()
        lines: MutableMapping[str, PrintedLine]
        lines = self._outside_runs.__dict__ if run is None else log_of(run).printed
        if self.name not in lines:
            fields = {} if run is None else log_fields(run)
            lines[self.name] = UnfinishedLine(partial(self._emit, fields))
        return lines[self.name]

    def _emit(self, fields: dict[str, Any], line: str) -> None:
        self._log.emit(LogLevel.info, "{log_io}", log_io=line, **{RUN_FIELDS: fields})
