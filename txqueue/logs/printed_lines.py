"""The standard streams of a worker: what is printed becomes lines of the log."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any, Final, cast

from twisted.logger import Logger, LogLevel

from txqueue.logs.entries import RUN_FIELDS
from txqueue.model.run_log import RUNNING, PrintedLine, log_fields, log_of
from txqueue.policy.endings.log_lines import LONGEST_MESSAGE

__all__ = ["PrintedBytes", "UnfinishedLine", "printed_lines"]

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
