"""Lets a statement that one job makes fail fail that job alone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from txqueue.errors import Refused
from txqueue.store.driver.errors import is_damage, is_of_a_row

__all__ = ["Rows", "past_damage", "taken"]

Rows = list[tuple[Any, ...]]
SetAside = Callable[[], Coroutine[Any, Any, Sequence[int]]]


async def taken(asking: Coroutine[Any, Any, Rows], set_aside: SetAside) -> Rows:
    """Return the rows of a claim or completion.

    Args:
        asking: The claim, or the completion of jobs.
        set_aside: Fails the jobs that cannot be read, and returns their numbers.

    Raises:
        Refused: When jobs were failed, which the next statement will not meet.
    """
    try:
        return await asking
    except Exception as error:
        if not is_of_a_row(error):
            raise
        ids = await set_aside()
        if not ids:
            raise
    raise Refused(
        f"jobs whose rows cannot be read have failed: {', '.join(map(str, ids[:10]))}",
        f"see the reason: txqueue job {ids[0]}",
    )


async def past_damage(query: Callable[[], Coroutine[Any, Any, Rows]], set_aside: SetAside) -> Rows:
    """Return the rows of a statement, which is repeated once damaged jobs have been failed."""
    try:
        return await query()
    except Exception as error:
        if not is_damage(error) or not await set_aside():
            raise
    return await query()
