"""Measures the CPU time of a node and of the server from ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from txqueue.system.processes import PARENT, all_processes, command_of, stat_of

__all__ = ["cpu_seconds"]

# Indexes in /proc/PID/stat after the name: group, and the times of the process and of its ended
# children.
GROUP = 2
TIMES = slice(11, 15)


def cpu_seconds(group: int, backend: int) -> float | None:
    """Return the CPU time of a process group and of a PostgreSQL server so far.

    Args:
        group: The number of the process group.
        backend: The process id of a backend of the server; its parent is the postmaster.

    Returns:
        Seconds; None if the server is on another host or there is no ``/proc``.
    """
    stats = dict(_stats())
    if backend not in stats or "postgres" not in command_of(backend):
        return None
    postmaster = int(stats[backend][PARENT])
    ticks = 0
    for pid, stat in stats.items():
        if int(stat[GROUP]) == group or postmaster in (pid, int(stat[PARENT])):
            ticks += sum(map(int, stat[TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stats() -> Iterator[tuple[int, list[str]]]:
    for pid in all_processes():
        with suppress(OSError):
            yield pid, stat_of(pid)
