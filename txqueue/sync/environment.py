"""What the queue for threads does otherwise than that for asyncio: all else is the same text.

`txqueue/aio/environment.py` has the same names; see `docs/build_sync.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Semaphore
from typing import Any, TypeVar

from txqueue.model.job import Job
from txqueue.standalone.sessions import Home
from txqueue.store.enqueueing.encryption import not_in_time

T = TypeVar("T")


BlockingHome = Home


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
