"""What Linux tells of the processes of this host, under ``/proc``; elsewhere nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = [
    "STATE",
    "all_processes",
    "children_of",
    "command_of",
    "descendants_of",
    "is_alive",
    "stat_of",
]

STATE = 0
"""The place of a process's state in what `stat_of` returns."""


def stat_of(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the name, which may have blanks in it.

    Raises:
        OSError: When there is no such process, or it is hidden from us.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def is_alive(pid: int) -> bool:
    """Tell whether there is such a process and it does more than wait for its parent."""
    with suppress(OSError):
        return stat_of(pid)[STATE] != "Z"
    return False


def all_processes() -> Iterator[int]:
    """Return the numbers of all processes."""
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread may end while we look.
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def descendants_of(pid: int) -> list[int]:
    """Return its children, their children and so on."""
    children = children_of(pid)
    return children + [each for child in children for each in descendants_of(child)]


def command_of(pid: int) -> str:
    """Return a process's command line, an empty text if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return ""
