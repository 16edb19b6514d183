"""Whether two nodes run on one host, and whether a process of it has ended: proof, not silence."""

from __future__ import annotations

import os
from pathlib import Path

from txqueue.system.procfs import STATE, stat_of

__all__ = ["NO_HOST", "has_ended", "host_identity"]

NO_HOST = ""
"""Of a node whose neighbours cannot tell whether its process has ended."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = "/proc/self/ns/pid"


def host_identity() -> str:
    """Name this boot of the system and the space of its process numbers; `NO_HOST` if unknown."""
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink(_NAMESPACE)}"
    except OSError:
        return NO_HOST


def has_ended(pid: int) -> bool:
    """Tell whether no such process of this host lives: none is there, or one that only its parent
    has not noticed yet."""
    try:
        # Not whether /proc shows it: it may hide what belongs to another account.
        os.kill(pid, 0)
        return stat_of(pid)[STATE] in ("Z", "X")
    except ProcessLookupError:
        return True
    except OSError:
        return False
