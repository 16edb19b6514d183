"""Failed attempts, as a hook for error trackers receives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import field, frozen

__all__ = ["FailedAttempt", "FailureHook", "failure_hooks", "on_failure"]


@frozen
class FailedAttempt:
    """A run of a job that failed.

    Attributes:
        job_id: The job's number.
        work_type: The job's work type.
        attempt: The number of the run, from 1.
        attempts: How many runs the job gets in all; None for no effective limit.
        delay: Seconds until the next run; None if the job has failed for good.
        error: The exception that the handler raised, with its traceback.
        redacted: Whether the work type's data must not be shown; the error's text may quote it.
    """

    job_id: int
    work_type: str
    attempt: int
    attempts: int | None
    delay: float | None
    error: BaseException = field(repr=False)
    redacted: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the job has failed for good."""
        return self.delay is None


FailureHook: TypeAlias = Callable[[FailedAttempt], object]

_hooks: list[FailureHook] = []


def on_failure(hook: FailureHook) -> FailureHook:
    """Register a function that the worker calls for each failed attempt; usable as a decorator.

    The function must not block, as it runs in the worker's reactor. An exception of the function is
    logged and does not affect the job. Register it in a module that ``--app`` imports.

    Args:
        hook: Called with a `FailedAttempt`. What it returns is ignored.

    Returns:
        The function itself.
    """
    if hook not in _hooks:
        _hooks.append(hook)
    return hook


def failure_hooks() -> tuple[FailureHook, ...]:
    """Return the registered functions, in the order of registration."""
    return tuple(_hooks)
