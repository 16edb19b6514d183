"""Reads the processes of this host from Linux's ``/proc``; finds none on other systems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = [
    "NO_HOST",
    "PARENT",
    "STATE",
    "WORKER_NAME",
    "all_processes",
    "children_of",
    "command_of",
    "descendants_of",
    "has_ended",
    "host_identity",
    "is_alive",
    "parent_of",
    "stat_of",
    "thread_count",
    "workers_of",
]

STATE: Final = 0
"""The index of a process's state in the result of `stat_of`."""
PARENT: Final = 1
"""The index of the id of a process's parent in the result of `stat_of`."""
WORKER_NAME: Final = "txqueue-worker"
"""The name of worker processes, as in ``/proc/PID/comm``: a forked one has the command line of its
template.
"""


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
    pids: list[int] = []
    # The process may end during the scan, or one of its threads.
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                pids += map(int, path.read_text().split())
    return pids


def descendants_of(pid: int) -> list[int]:
    """Return the ids of a process's children, their children and so on."""
    children = children_of(pid)
    return children + [descendant for child in children for descendant in descendants_of(child)]


def command_of(pid: int) -> str:
    """Return a process's command line; an empty text if the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return ""


def parent_of(pid: int) -> int:
    """Return the id of a process's parent; 0 if the process is gone."""
    with suppress(OSError):
        return int(stat_of(pid)[PARENT])
    return 0


def workers_of(master: int) -> list[int]:
    """Return the ids of a master's living workers, its children or those of its template."""
    children = children_of(master)
    candidates = [
        *children,
        *(grandchild for child in children for grandchild in children_of(child)),
    ]
    return [pid for pid in candidates if _name_of(pid) == WORKER_NAME and is_alive(pid)]


def _name_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    return ""


def thread_count() -> int:
    """Return the number of threads of this process, those of libraries too."""
    return sum(1 for _ in Path("/proc/self/task").glob("*"))


NO_HOST = ""
"""The `host_identity` of a node whose process other nodes cannot check."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = "/proc/self/ns/pid"


def host_identity() -> str:
    """Return a text that identifies this boot and process id namespace; `NO_HOST` if unknown."""
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink(_NAMESPACE)}"
    except OSError:
        return NO_HOST


def has_ended(pid: int) -> bool:
    """Tell whether a process of this host has ended: it does not exist, or is a zombie."""
    try:
        # Signal 0 instead of /proc, which may hide processes of other accounts.
        os.kill(pid, 0)
        return stat_of(pid)[STATE] in ("Z", "X")
    except ProcessLookupError:
        return True
    except OSError:
        return False
