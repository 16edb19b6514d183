"""The jobs that a worker has started, in memory that it shares with its master."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from typing import Final

_WIDTH: Final = 8
# Cells of flags: whether the master has stopped the worker; whether the log was too full to note an
# end. The job that blocks the worker, once that is known. How many jobs it may start, 0 for any
# number, and has started.
_STOPPED, _IS_INCOMPLETE, _BLOCKER, _LIMIT, _STARTED = range(5)
# The log of jobs that started or ended since ends were last reported. Its last number is positive
# while that job is the one just started.
_LOG: Final = 5
_LOG_END: Final = _LOG + 4096
# Cells for the jobs of two bursts, and for jobs that end meanwhile.
_MARGIN: Final = 128
_NOTHING: Final = memoryview(bytes(_WIDTH * (_LOG_END - _LOG))).cast("q")
# No worker runs more jobs at a time; if one does, further jobs are not noted.
_MOST: Final = 65_536


class InFlight:
    """The started and unreported jobs of a worker, and whether it may start more.

    The master reads this memory when the worker dies or blocks. Such a worker cannot report, and
    may hold thousands of jobs, most of which it never started. Noting a job here takes about 50 ns;
    a message for each job would take far longer.

    Args:
        capacity: The largest number of jobs that run at a time.
        descriptor: The descriptor of a file of `made`; None for memory of this process only.
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
            capacity: The largest number of jobs that run at a time.

        Returns:
            The file's descriptor, which the caller must close.
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
        """The numbers of the jobs that are running."""
        return {max(0, self._just_begun), *self._cells[_LOG_END:].tolist()} - {0}

    @property
    def beginning(self) -> int:
        """The number of the job whose handler runs its first step now; 0 if there is none."""
        return max(0, self._just_begun)

    @property
    def blocker(self) -> int:
        """The number of the job that the worker has named as the one that blocks it; 0 for none."""
        return int(self._cells[_BLOCKER])

    def name_blocker(self, job_id: int) -> None:
        """Name the job that blocks the worker; 0 forgets the one that was named."""
        self._cells[_BLOCKER] = job_id

    @property
    def suspects(self) -> set[int]:
        """The numbers of the jobs that may have ended the process.

        That is the job just started, beside those that keep running. If the process did not end in
        a job's first step, it may have been one that has ended without a report: a handler that
        closes all descriptors returns, and the process ends as it can report nothing.
        """
        if self._just_begun > 0 or (begun := self.begun) is None:
            return self.ids
        return begun

    @property
    def _just_begun(self) -> int:
        """The last number in the log, which is positive while that job is the one just started."""
        log = self._cells[_LOG:_LOG_END].tolist()
        return next((job_id for job_id in reversed(log) if job_id), 0)

    @property
    def begun(self) -> set[int] | None:
        """The numbers of the jobs that have started and whose end was not reported.

        None if they are unknown: more jobs ran, or ended at once, than the memory can note.
        """
        job_ids = self._cells[_LOG_END:].tolist()
        if self._cells[_IS_INCOMPLETE] or 0 not in job_ids:
            return None
        return {*job_ids, *map(abs, self._cells[_LOG:_LOG_END].tolist())} - {0}

    @property
    def is_full(self) -> bool:
        """Whether the worker must report ended jobs before it starts another."""
        return self._next > _LOG_END - _MARGIN

    @property
    def is_stopped(self) -> bool:
        """Whether the worker must not start jobs: it was stopped, or has started all it may."""
        return self._cells[_STOPPED] == 1 or self.left == 0

    @property
    def started(self) -> int:
        """How many jobs the worker has started."""
        return int(self._cells[_STARTED])

    @property
    def left(self) -> int:
        """How many jobs the worker may still start."""
        limit = int(self._cells[_LIMIT])
        return max(0, limit - self.started) if limit else sys.maxsize

    def limit(self, jobs: int) -> None:
        """Let the worker start so many jobs in all; any number if that is 0."""
        self._cells[_LIMIT] = jobs

    def note_started(self, jobs: int) -> None:
        """Add to the number of started jobs."""
        self._cells[_STARTED] += jobs

    def stop(self, *, is_stopped: bool = True) -> None:
        """Stop the worker from starting jobs, or let it continue."""
        self._cells[_STOPPED] = is_stopped

    def begin(self, job_id: int) -> None:
        """Note the start of a job; the job noted before has ended, or was noted with `keep`."""
        index = self._next
        self._cells[index] = job_id
        self._next = index + 1

    def pause(self) -> None:
        """Note that the job started last has ended, or was noted with `keep`."""
        if self._next > _LOG:
            self._cells[self._next - 1] = -abs(self._cells[self._next - 1])

    def keep(self, job_id: int) -> None:
        """Note that a started job keeps running while others start."""
        if self._free and job_id not in self._places:
            index = self._places[job_id] = self._free.pop()
            self._cells[index] = job_id

    def drop(self, job_id: int) -> None:
        """Note that a job that kept running has ended."""
        if (index := self._places.pop(job_id, None)) is None:
            return
        if self._next < _LOG_END - 2 * _MARGIN:
            self._log_end(job_id)
        else:
            self._cells[_IS_INCOMPLETE], self._is_reported = 1, False
        self._cells[index] = 0
        self._free.append(index)

    def _log_end(self, job_id: int) -> None:
        last_entry = self._cells[self._next - 1] if self._next > _LOG else 0
        index = self._next
        # At every instant, the last entry is the job that was just started, if it still runs.
        if last_entry > 0 and last_entry != job_id:
            self._cells[index + 1] = last_entry
            self._next += 1
        self._cells[index] = -job_id
        self._next += 1

    def reported(self) -> None:
        """Note that the worker is reporting all jobs that have ended so far."""
        self._reported, self._is_reported = self._next, True

    def forget_reported(self) -> None:
        """Forget the ended jobs that were reported, to make room for others."""
        if not self._is_reported:
            return
        entries = self._cells[self._reported : self._next].tolist()
        self._cells[_LOG : self._next] = _NOTHING[: self._next - _LOG]
        for index, job_id in enumerate(entries, _LOG):
            self._cells[index] = job_id
        self._next, self._reported, self._is_reported = _LOG + len(entries), _LOG, False
        self._cells[_IS_INCOMPLETE] = 0


def _size(capacity: int) -> int:
    return (_LOG_END + min(capacity, _MOST) + 2) * _WIDTH
