"""Errors of the application's tracer: logged now and then, and never an error of the queue."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["EVERY", "harmless"]

EVERY = 60.0
"""Seconds between two lines about such errors."""


class Complaints:
    """Logs an error, at most one in a while."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")

    def note(self) -> None:
        """Log the error that is being handled."""
        if time.monotonic() - self._logged_at >= EVERY:
            self._logged_at = time.monotonic()
            _log_failure("the tracer of the application failed; the jobs go on without it")


def _log_failure(text: str) -> None:
    # An application that only enqueues, by an adapter, has not imported Twisted.
    if "twisted.logger" not in sys.modules:
        import logging

        logging.getLogger(__name__).exception(text)
        return
    from twisted.logger import Logger

    Logger(__name__).failure(text)


complaints = Complaints()


@contextmanager
def harmless() -> Iterator[None]:
    """Keep an error of the block from the caller: a span must not change the outcome of a job."""
    try:
        yield
    except BaseException:
        complaints.note()
