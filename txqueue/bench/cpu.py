"""The processor time of a node and of the server, where ``/proc`` tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["cpu_seconds"]

# Places in /proc/PID/stat behind the name: the parent, the group, and the times of the process and
# of its children that have ended.
PARENT, GROUP = 1, 2
TIMES = slice(11, 15)


def cpu_seconds(group: int, backend: int) -> float | None:
    """Return what a process group and a PostgreSQL server have used so far.

    Args:
        group: The number of the process group.
        backend: The process of one of the server's connections.

    Returns:
        Seconds; None where the server is another host's or there is no ``/proc``.
    """
    server = _stat(backend)
    if server is None or "postgres" not in _name(backend):
        return None
    postmaster = int(server[PARENT])
    ticks = 0
    for pid, stat in _all():
        if int(stat[GROUP]) == group or postmaster in (pid, int(stat[PARENT])):
            ticks += sum(map(int, stat[TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _all() -> Iterator[tuple[int, list[str]]]:
    for path in Path("/proc").glob("[0-9]*"):
        stat = _stat(int(path.name))
        if stat is not None:
            yield int(path.name), stat


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _stat(pid: int) -> list[str] | None:
    """Return the fields behind the name, which may have blanks in it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return None
