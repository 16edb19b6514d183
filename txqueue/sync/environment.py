"""What the queue for threads does otherwise than that for asyncio: all else is the same text.

`txqueue/aio/environment.py` has the same names; see `docs/build_sync.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from threading import Semaphore
from typing import Any, TypeVar

from txqueue.model.job import Job
from txqueue.standalone.sessions import check_process
from txqueue.store.enqueueing.encryption import not_in_time

T = TypeVar("T")


class BlockingHome:
    """The process in which a queue was connected."""

    is_over = False

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_left(self) -> bool:
        """Whether this process is a fork of that one."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Check that this is the process.

        Raises:
            ConfigurationError: When it is not.
        """
        check_process(self._pid)


def aside(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that reads files."""
    return function(*arguments)


def to_the_end(close: Callable[[], None]) -> None:
    """Call a function that closes something: nothing cancels a thread."""
    close()


def acquired(semaphore: Semaphore, seconds: float) -> bool:
    """Acquire a semaphore; return False if that has taken too long."""
    return semaphore.acquire(timeout=seconds)


def ended_in_time(ending: Future[Job], job_id: int, timeout: float | None) -> Job:
    """Return the ended job.

    Raises:
        WaitTimeout: When it has not ended in time.
    """
    try:
        return ending.result(timeout)
    except TimeoutError:
        raise not_in_time(job_id, timeout or 0.0) from None
