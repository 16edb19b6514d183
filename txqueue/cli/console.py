"""The process of the command ``txqueue``: how it ends."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Container
from contextlib import suppress
from typing import Final, NoReturn

from txqueue.cli import root

_WITH_CLEAN_UP: Final = ("twisted", "tempfile", "multiprocessing", "concurrent.futures.thread")
"""Modules that have, or make, something to clean up at the end of a process."""


def main() -> NoReturn:
    """Run the command, and end the process.

    A command that has only read ends at once: the interpreter's own end takes an eighth of its
    time, and frees what the operating system frees as well.
    """
    try:
        root.main()
    except SystemExit as end:
        if not may_skip_clean_up(sys.modules, threading.active_count()):
            raise
        status = end.code
    # Its output is written, or known to be unwritable.
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


def may_skip_clean_up(modules: Container[str], threads: int) -> bool:
    """Tell whether a process has nothing to clean up.

    Args:
        modules: The names of those that it has imported.
        threads: How many threads it has.
    """
    return threads == 1 and not any(name in modules for name in _WITH_CLEAN_UP)
