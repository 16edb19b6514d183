"""Recognizes what ends a run that waits, also if another error wraps it."""

from __future__ import annotations

from typing import Any

from txqueue.errors import Suspended
from txqueue.model.foreign import is_a, looked

__all__ = ["is_suspension"]

# So many errors may wrap it.
_DEEPEST = 20


def is_suspension(error: Any, depth: int = 0) -> bool:
    """Tell whether an error is `Suspended`, or stands for nothing else.

    Twisted's ``gatherResults`` wraps the first error in a ``FirstError``, and groups of tasks put
    theirs into a `BaseExceptionGroup`.

    Args:
        error: What the handler raised.
        depth: How many errors wrap it.
    """
    if is_a(error, Suspended):
        return True
    if depth > _DEEPEST:
        return False
    if is_a(error, BaseExceptionGroup):
        members: tuple[Any, ...] = looked(lambda: error.exceptions, ())
        return all(is_suspension(each, depth + 1) for each in members)
    inner = looked(lambda: error.subFailure.value, None)
    return inner is not None and is_suspension(inner, depth + 1)
