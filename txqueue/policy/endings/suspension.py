"""Recognizes errors of durable steps that decide how a run ends, also if other errors wrap them."""

from __future__ import annotations

from typing import Any

from txqueue.errors import JobFailed, Suspended
from txqueue.model.foreign import is_a, looked

__all__ = ["is_kept", "is_suspension"]

# So many errors may wrap it.
_DEEPEST = 10


def is_suspension(error: Any, depth: int = 0) -> bool:
    """Tell whether an error is `Suspended`, or stands for nothing else.

    Args:
        error: What the handler raised.
        depth: How many errors wrap it.
    """
    if is_a(error, Suspended):
        return True
    inner = _wrapped(error) if depth < _DEEPEST else ()
    return bool(inner) and all(is_suspension(each, depth + 1) for each in inner)


def is_kept(error: Any, depth: int = 0) -> bool:
    """Tell whether an error is that of a call which has kept it, or comes from such a one.

    Args:
        error: What the handler raised.
        depth: How many errors wrap it.
    """
    if is_a(error, JobFailed) and looked(lambda: error.is_kept, False):
        return True
    inner = (*_wrapped(error), looked(lambda: error.__cause__, None)) if depth < _DEEPEST else ()
    return any(is_kept(each, depth + 1) for each in inner if each is not None)


def _wrapped(error: Any) -> tuple[Any, ...]:
    """Return what an error stands for.

    Groups of tasks put theirs into a `BaseExceptionGroup`, Twisted's ``race`` into a
    ``FailureGroup``, and its ``gatherResults`` wraps the first error in a ``FirstError``.
    """
    if is_a(error, BaseExceptionGroup):
        return looked(lambda: tuple(error.exceptions), ())
    if failures := looked(lambda: tuple(each.value for each in error.failures), ()):
        return failures
    inner = looked(lambda: error.subFailure.value, None)
    return () if inner is None else (inner,)
