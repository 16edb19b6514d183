"""Writes the log of a master in a thread: no caller waits for the reader of the log, or a disk."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from twisted.logger import Logger

__all__ = ["DROPPED", "OUTPUT", "LogOutput"]

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
            self._ensure_thread()
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

    def _ensure_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            self._thread.start()

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


def _to_stderr(text: str) -> object:
    return os.write(2, text.encode("utf-8", "replace"))


OUTPUT: Final = LogOutput(_to_stderr)
"""The output of this process."""
# A daemon forks after its first lines.
os.register_at_fork(after_in_child=OUTPUT.begin_process)
