"""Records numbers in a file for each worker process; they stay even if the process is killed."""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Callable
from pathlib import Path

from txqueue.demo import FOLDER_VARIABLE

__all__ = ["FOLDER_VARIABLE", "NOTES", "Tally", "noted_numbers"]

SUFFIX = ".tally"
NOTES = f"*{SUFFIX}"
"""The pattern of the files, whose names begin with the process id."""

# The most numbers that one process can record; its file is sparse, and has room for all of them.
MOST = 1 << 24
WIDTH = 8


class Tally:
    """Records numbers, such as those of jobs, in a file of this process, through shared memory.

    The kernel keeps recorded numbers even if the process is killed.

    Attributes:
        add: A function that records a number other than 0. Its first call creates the file, and
            replaces the function by a faster one.
    """

    def __init__(self) -> None:
        self.add: Callable[[int], None] = self._first

    def _first(self, number: int) -> None:
        path = Path(os.environ[FOLDER_VARIABLE]) / f"{os.getpid()}{SUFFIX}"
        with path.open("w+b") as file:
            file.truncate(MOST * WIDTH)
            cells = memoryview(mmap.mmap(file.fileno(), MOST * WIDTH)).cast("q")
        self.add = _adder(cells)
        self.add(number)


def _adder(cells: memoryview) -> Callable[[int], None]:
    place = 0

    def add(number: int) -> None:
        nonlocal place
        cells[place] = number
        place += 1

    return add


def noted_numbers(folder: Path) -> array[int]:
    """Return all numbers that processes have recorded in a folder.

    Args:
        folder: The folder that the processes' ``TXQUEUE_BENCH_FOLDER`` names.
    """
    numbers = array("q")
    for path in sorted(folder.glob(NOTES)):
        with path.open("rb") as file:
            while block := array("q", file.read(1 << 20)):
                full = block.index(0) if block[-1] == 0 else len(block)
                numbers.extend(block[:full])
                if full < len(block):
                    break
    return numbers
