"""Attempts that failed, as a hook for error trackers sees them."""

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
        work_type: Its type.
        attempt: Which run it was, from 1.
        attempts: How many runs the job gets in all; None for no limit that counts.
        delay: Seconds until the next run; None if the job has failed for good.
        error: What the handler raised, with its traceback.
        redacted: Whether the type's data must not be shown, which an error's text may quote.
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
    """Call a function, in the worker process, for each attempt that fails; usable as a decorator.

    The worker's reactor waits for it, so it must not block; what it raises is logged and changes
    nothing for the job. Register it in a module that ``--app`` imports.

    Args:
        hook: Called with a `FailedAttempt`. What it returns is ignored.

    Returns:
        The function.
    """
    if hook not in _hooks:
        _hooks.append(hook)
    return hook


def failure_hooks() -> tuple[FailureHook, ...]:
    """Return the functions that were registered, in their order."""
    return tuple(_hooks)
