"""Writes whole lines to a descriptor that several processes write to."""

from __future__ import annotations

import fcntl
import io
import os
import select
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, ClassVar, Final, cast

__all__ = ["LineOutput", "line_output"]

# Seconds: between two attempts to get the lock, and until a process that holds it without need is
# taken for stopped.
_PAUSE, _PATIENCE = 0.0005, 2.0
# Milliseconds for which a process waits for room in the pipe before it tries the lock again.
_LONGEST_POLL: Final = 100
_STREAMS: Final = (stat.S_ISFIFO, stat.S_ISSOCK)


def line_output(stream: IO[Any]) -> IO[Any]:
    """Return what writes whole lines where a stream does; the stream if it has no descriptor."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError):
        return stream
    stream.flush()
    return cast("IO[Any]", LineOutput(descriptor, stream))


class LineOutput(io.TextIOBase):
    """Writes each text in UTF-8 and as a whole, among the processes that write with this class.

    A file takes the whole text of one call. A pipe, for which a longer text than `PIPE_BUF` is
    several, is locked for it. The lock is the pipe's own, so that every process finds it, and the
    kernel releases it when its holder dies.

    Args:
        descriptor: Where to write.
        owner: What closes the descriptor when it is no longer used.
    """

    # A record lock does not exclude threads of the process that holds it.
    _threads: ClassVar = threading.RLock()

    def __init__(self, descriptor: int, owner: object = None) -> None:
        self._descriptor = descriptor
        self._owner = owner
        mode = os.fstat(descriptor).st_mode
        self._is_locked = any(is_such(mode) for is_such in _STREAMS)
        self._patience = _PATIENCE

    @classmethod
    def begin_child(cls) -> None:
        """Forget which thread of the parent was writing: it does not exist in a forked process."""
        cls._threads = threading.RLock()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Write a text; return its length.

        Raises:
            OSError: When the reader has gone, or a disk is full.
        """
        data = text.encode("utf-8", "replace")
        with self._threads, self._lock():
            while data:
                data = data[self._write_some(data) :]
        return len(text)

    def _write_some(self, data: bytes) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            # Another process made the pipe, and chose that its writers do not wait.
            self._has_room(None)
            return 0

    def _has_room(self, timeout: float | None) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(timeout))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        has_lock = self._is_locked and self._wait_for_lock()
        try:
            yield
        finally:
            if has_lock:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _wait_for_lock(self) -> bool:
        """Return whether the lock was got; without it, a line may be torn, but none is lost."""
        start = time.monotonic()
        while not (has_lock := self._take_lock()) and self._is_locked:
            # A holder that waits for room needs the lock; this process would wait as well.
            if not self._has_room(0):
                self._has_room(_LONGEST_POLL)
                start = time.monotonic()
            if time.monotonic() - start > self._patience:
                break
            time.sleep(_PAUSE)
        # A stopped process must not delay every line.
        self._patience = _PATIENCE if has_lock else 0.0
        return has_lock

    def _take_lock(self) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            # This system has no locks of pipes.
            self._is_locked = False
            return False
        return True


os.register_at_fork(after_in_child=LineOutput.begin_child)
