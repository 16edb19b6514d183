"""Identifies this host, and tells whether one of its processes has ended."""

from __future__ import annotations

import os
from pathlib import Path

from txqueue.system.procfs import STATE, stat_of

__all__ = ["NO_HOST", "has_ended", "host_identity"]

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
