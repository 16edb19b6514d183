"""Reads the processes of this host from Linux's ``/proc``; finds none on other systems."""

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
"""The index of a process's state in the result of `stat_of`."""


def stat_of(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the program's name, which may contain blanks.

    Raises:
        OSError: When there is no such process, or this process may not see it.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is not a zombie."""
    with suppress(OSError):
        return stat_of(pid)[STATE] != "Z"
    return False


def all_processes() -> Iterator[int]:
    """Yield the ids of all processes."""
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def children_of(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread may end during the scan.
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def descendants_of(pid: int) -> list[int]:
    """Return the ids of a process's children, their children and so on."""
    children = children_of(pid)
    return children + [each for child in children for each in descendants_of(child)]


def command_of(pid: int) -> str:
    """Return a process's command line; an empty text if the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return ""
