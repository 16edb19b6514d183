"""The jobs that a worker process runs, in memory that its master reads once it has died."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Final

__all__ = ["InFlight"]

_WIDTH: Final = 8
# The first cell is of the job that is just begun.
_BEGINNING: Final = 0
# More run at a time nowhere; of what is beyond it, none is blamed.
_MOST: Final = 65_536


class InFlight:
    """Cells with the numbers of the jobs that have begun and not ended.

    A process that dies can say nothing any more, and what it held are thousands of jobs, most of
    them innocent of its death. To write a cell costs some 50 ns; for each job, no message could.

    Args:
        capacity: How many jobs run at a time at most.
        descriptor: An open file of `made`; None for memory of this process alone.
    """

    def __init__(self, capacity: int, descriptor: int | None = None) -> None:
        size = _size(capacity)
        memory = bytearray(size) if descriptor is None else mmap.mmap(descriptor, size)
        self._cells = memoryview(memory).cast("q")
        self._free = list(range(len(self._cells) - 1, _BEGINNING, -1))
        self._places: dict[int, int] = {}

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
        return set(self._cells) - {0}

    def begin(self, job_id: int) -> None:
        """Note that a job is begun; the next one that is begun takes its place."""
        self._cells[_BEGINNING] = job_id

    def pause(self) -> None:
        """Note that no job is just begun."""
        self._cells[_BEGINNING] = 0

    def keep(self, job_id: int) -> None:
        """Note that a job that was begun runs on."""
        if self._free and job_id not in self._places:
            place = self._places[job_id] = self._free.pop()
            self._cells[place] = job_id

    def drop(self, job_id: int) -> None:
        """Note that a job that ran on has ended."""
        if (place := self._places.pop(job_id, None)) is not None:
            self._cells[place] = 0
            self._free.append(place)


def _size(capacity: int) -> int:
    return (min(capacity, _MOST) + 2) * _WIDTH
