"""Numbers recorded by worker processes, one file each, so that none is lost if they die."""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Callable
from pathlib import Path

__all__ = ["FOLDER_VARIABLE", "NOTES", "Tally", "noted_numbers"]

FOLDER_VARIABLE = "TXQUEUE_BENCH_FOLDER"
SUFFIX = ".tally"
NOTES = f"*{SUFFIX}"
"""The pattern of the files, whose names begin with the process id."""

# The size of a sparse file, which limits how much one process can record.
MOST = 1 << 24
WIDTH = 8


class Tally:
    """Records the numbers of this process in a file, through shared memory.

    The kernel keeps recorded numbers even if the process is killed.

    Attributes:
        add: Records a number that is not 0. The first call creates the file and replaces this
            function by a faster one.
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
    """Return all numbers recorded in a folder.

    Args:
        folder: The folder named by the environment variable.
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
