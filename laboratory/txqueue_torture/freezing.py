"""Stops and resumes processes by signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from txqueue.system.processes import STATE, stat_of
from txqueue_torture.node import until

__all__ = ["frozen", "is_stopped"]

PATIENCE = 5.0


@contextmanager
def frozen(pids: Iterable[int]) -> Iterator[list[int]]:
    """Stop processes by SIGSTOP during the block, and resume them at its end.

    Yields:
        The processes that have really stopped.
    """
    chosen = list(pids)
    try:
        _signal(chosen, signal.SIGSTOP)
        until(lambda: all(map(is_stopped, chosen)), PATIENCE)
        yield [pid for pid in chosen if is_stopped(pid)]
    finally:
        _signal(chosen, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Tell whether a process is stopped by a signal."""
    with suppress(OSError):
        return stat_of(pid)[STATE] in ("T", "t")
    return False


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
