"""Whether a task of asyncio's runs, and clean-ups that it ends although it is cancelled again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["in_asyncio", "unbroken"]

T = TypeVar("T")


def in_asyncio() -> bool:
    """Tell whether a task of asyncio runs, which cannot await a Deferred."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


async def unbroken(cleanup: Awaitable[T]) -> T:
    """Await a clean-up, which no cancellation of the caller interrupts.

    A caller that is cancelled meanwhile waits for its end first. At the next cancellation it waits
    no longer, and the clean-up goes on by itself.
    """
    if not in_asyncio():
        return await cleanup
    ending = asyncio.ensure_future(cleanup)
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait([ending])
        raise
