"""An application that no worker can import while a file lies in the folder of the scenario.

In a master it blocks SIGCHLD once the master works, as an imported library may do at any time.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from txqueue_torture.recorder import FOLDER_VARIABLE, NODE_VARIABLE

__all__ = ["fault_of"]

BLOCKED_AFTER = 0.5


def fault_of(folder: Path, node: str) -> Path:
    """Return the file that breaks the application of a node."""
    return folder / f"{node}.broken"


def _block() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})


def _break(node: str) -> None:
    """Do in a process of a node what is wrong with its application."""
    if "txqueue.worker.master_link" in sys.modules:
        if fault_of(Path(os.environ[FOLDER_VARIABLE]), node).exists():
            raise ImportError("a file of this release is damaged on this host")
    elif (running := sys.modules.get("twisted.internet.reactor")) is not None:
        running.callLater(BLOCKED_AFTER, _block)


if NODE_VARIABLE in os.environ:
    _break(os.environ[NODE_VARIABLE])
