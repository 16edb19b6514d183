"""Errors of the application's tracer: logged now and then, and never an error of the queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from twisted.logger import Logger

__all__ = ["EVERY", "harmless"]

EVERY = 60.0
"""Seconds between two lines about such errors."""


class Complaints:
    """Logs an error, at most one in a while."""

    log = Logger()

    def __init__(self) -> None:
        self._logged_at = float("-inf")

    def note(self) -> None:
        """Log the error that is being handled."""
        if time.monotonic() - self._logged_at >= EVERY:
            self._logged_at = time.monotonic()
            self.log.failure("the tracer of the application failed; the jobs go on without it")


complaints = Complaints()


@contextmanager
def harmless() -> Iterator[None]:
    """Keep an error of the block from the caller: a span must not change the outcome of a job."""
    try:
        yield
    except BaseException:
        complaints.note()
