"""The jobs that a worker has begun, in memory that its master reads when it cannot speak."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Final

__all__ = ["InFlight"]

_WIDTH: Final = 8
# Cells: whether the master has stopped the worker; whether a job that ended was not logged.
_STOPPED, _IS_INCOMPLETE = 0, 1
# The log of jobs that began or ended since what ended was last reported. Its last number is
# positive while that job is just begun.
_LOG: Final = 2
_LOG_END: Final = _LOG + 4096
# Cells that are left for the jobs of two bursts, and for jobs that end meanwhile.
_MARGIN: Final = 128
_NOTHING: Final = memoryview(bytes(_WIDTH * (_LOG_END - _LOG))).cast("q")
# More run at a time nowhere; of what is beyond it, none is blamed.
_MOST: Final = 65_536


class InFlight:
    """What has begun and not ended, what has ended and is not reported, and whether to go on.

    A process that dies or blocks can say nothing, and what it held are thousands of jobs, most of
    which have nothing to do with that. To write a cell costs some 50 ns; for each job, no message
    could.

    Args:
        capacity: How many jobs run at a time at most.
        descriptor: An open file of `made`; None for memory of this process alone.
    """

    def __init__(self, capacity: int, descriptor: int | None = None) -> None:
        size = _size(capacity)
        memory = bytearray(size) if descriptor is None else mmap.mmap(descriptor, size)
        self._cells = memoryview(memory).cast("q")
        self._free = list(range(len(self._cells) - 1, _LOG_END - 1, -1))
        self._places: dict[int, int] = {}
        self._next = self._reported = _LOG
        self._is_reported = False

    @staticmethod
    def made(capacity: int) -> int:
        """Make a file for two processes to share.

        Args:
            capacity: How many jobs run at a time at most.

        Returns:
            Its descriptor, which the caller closes.
        """
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("txqueue in flight")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, _size(capacity))
        return descriptor

    @property
    def ids(self) -> set[int]:
        """The numbers of the jobs in flight."""
        log = self._cells[_LOG:_LOG_END].tolist()
        just_begun = max(0, next((each for each in reversed(log) if each), 0))
        return {just_begun, *self._cells[_LOG_END:].tolist()} - {0}

    @property
    def begun(self) -> set[int] | None:
        """The numbers of the jobs that have begun and of which no end was heard.

        None if that is not known: more ran, or ended at once, than there are cells.
        """
        kept = self._cells[_LOG_END:].tolist()
        if self._cells[_IS_INCOMPLETE] or 0 not in kept:
            return None
        return {*kept, *map(abs, self._cells[_LOG:_LOG_END].tolist())} - {0}

    @property
    def is_full(self) -> bool:
        """Whether no more may begin before what ended is reported."""
        return self._next > _LOG_END - _MARGIN

    @property
    def is_stopped(self) -> bool:
        """Whether the master wants no other job to begin."""
        return self._cells[_STOPPED] == 1

    def stop(self, *, is_stopped: bool = True) -> None:
        """Have the worker begin no other job, or let it go on."""
        self._cells[_STOPPED] = is_stopped

    def begin(self, job_id: int) -> None:
        """Note that a job is begun; the one begun before it has ended, or is kept."""
        self._cells[self._next] = job_id
        self._next += 1

    def pause(self) -> None:
        """Note that no job is just begun."""
        if self._next > _LOG:
            self._cells[self._next - 1] = -abs(self._cells[self._next - 1])

    def keep(self, job_id: int) -> None:
        """Note that a job that was begun runs on."""
        if self._free and job_id not in self._places:
            place = self._places[job_id] = self._free.pop()
            self._cells[place] = job_id

    def drop(self, job_id: int) -> None:
        """Note that a job that ran on has ended."""
        if (place := self._places.pop(job_id, None)) is None:
            return
        if self._next < _LOG_END - 2 * _MARGIN:
            self._log_end(job_id)
        else:
            self._cells[_IS_INCOMPLETE], self._is_reported = 1, False
        self._cells[place] = 0
        self._free.append(place)

    def _log_end(self, job_id: int) -> None:
        last = self._cells[self._next - 1] if self._next > _LOG else 0
        ends = self._next
        # Another that is just begun stays the last, at every moment.
        if last > 0 and last != job_id:
            self._cells[ends + 1] = last
            self._next += 1
        self._cells[ends] = -job_id
        self._next += 1

    def reported(self) -> None:
        """Note that all that has ended is being reported."""
        self._reported, self._is_reported = self._next, True

    def forget_reported(self) -> None:
        """Begin the log anew with what was not reported."""
        if not self._is_reported:
            return
        kept = self._cells[self._reported : self._next].tolist()
        self._cells[_LOG : self._next] = _NOTHING[: self._next - _LOG]
        for place, job_id in enumerate(kept, _LOG):
            self._cells[place] = job_id
        self._next, self._reported, self._is_reported = _LOG + len(kept), _LOG, False
        self._cells[_IS_INCOMPLETE] = 0


def _size(capacity: int) -> int:
    return (_LOG_END + min(capacity, _MOST) + 2) * _WIDTH
