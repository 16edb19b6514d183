"""Numbers that worker processes note, one file each, so that none is lost however they end."""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Callable
from pathlib import Path

__all__ = ["FOLDER_VARIABLE", "NOTES", "Tally", "noted"]

FOLDER_VARIABLE = "TXQUEUE_BENCH_FOLDER"
SUFFIX = ".tally"
NOTES = f"*{SUFFIX}"
"""The files of a folder: the number of the process that noted, and this."""

# The file has holes where nothing was written: what counts is what one process may note.
MOST = 1 << 24
WIDTH = 8


class Tally:
    """The numbers of this process, written through shared memory into the folder of the variable.

    The kernel keeps what was noted even when the process is killed.

    Attributes:
        add: Notes a number that is not 0. Bound anew at the first, which makes the file, so that
            the later ones cost next to nothing.
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


def noted(folder: Path) -> array[int]:
    """Return all that was noted in a folder.

    Args:
        folder: What the variable named.
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
