"""A running job, as the log sees it."""

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define

from txqueue.model.run_log import RUNNING, RunLog


@define
class SecondRun:
    """The second run of a job."""

    id: int = 7
    work_type: str = "shop.Mail"
    attempt: int = 2
    log: RunLog | None = None


class Untold:
    """A value without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


@contextmanager
def running(run: SecondRun) -> Iterator[None]:
    """Let a job run."""
    token = RUNNING.set(run)
    try:
        yield
    finally:
        RUNNING.reset(token)
