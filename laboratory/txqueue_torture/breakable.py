"""An application that no worker can import while a file lies in the folder of the scenario.

In a master it replaces the handler of SIGCHLD once the master works, as an imported library may do
at any time. (To block the signal in one thread is not enough: another one gets it.)
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from txqueue_torture.recorder import FOLDER_VARIABLE, NODE_VARIABLE

__all__ = ["fault_of"]

REPLACED_AFTER = 0.5


def fault_of(folder: Path, node: str) -> Path:
    """Return the file that breaks the application of a node."""
    return folder / f"{node}.broken"


def _replace() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _break(node: str) -> None:
    """Do in a process of a node what is wrong with its application."""
    if "txqueue.worker.master_link" in sys.modules:
        if fault_of(Path(os.environ[FOLDER_VARIABLE]), node).exists():
            raise ImportError("a file of this release is damaged on this host")
    elif (running := sys.modules.get("twisted.internet.reactor")) is not None:
        running.callLater(REPLACED_AFTER, _replace)


if NODE_VARIABLE in os.environ:
    _break(os.environ[NODE_VARIABLE])
