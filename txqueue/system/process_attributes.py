"""Sets attributes of this process by Linux's ``prctl``; does nothing on other systems."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

__all__ = ["die_with_parent", "set_process_name"]

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15


def die_with_parent(parent: int | None = None) -> None:
    """Make Linux kill this process when its parent dies, even if it is stopped or stuck in C code.

    Args:
        parent: The process id of the parent: if it has already died, this process exits. None if
            this process notices that in another way.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def set_process_name(name: str) -> None:
    """Set the name of this process as ``ps -o comm`` and ``pgrep -x`` show it.

    Args:
        name: The name; the system keeps the first 15 characters.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())
