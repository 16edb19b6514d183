"""The values of a job's policy."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum
from typing import cast

__all__ = [
    "LONGEST_TIMEOUT",
    "MOST_GROUP_LIMIT",
    "MOST_WEIGHT",
    "Priority",
    "Runtime",
    "UniqueMode",
    "is_timeout",
]

LONGEST_TIMEOUT = 315_360_000
"""The longest timeout of a job, ten years in seconds, because reactors' timers have a limit."""

MOST_WEIGHT = 1_000_000
"""The largest weight of a job. The database refuses a larger one from SQL clients, too."""

MOST_GROUP_LIMIT = 1_000_000
"""The most jobs of a group that may run at a time."""


class Priority(IntEnum):
    """Names for some of the priorities 0 to 9."""

    LOW = 2
    NORMAL = 4
    HIGH = 7


class UniqueMode(StrEnum):
    """What to do with a new job while another of its work type holds its unique key."""

    KEEP = "keep"
    """Do not enqueue the new job: the other one does the work of both."""
    REPLACE = "replace"
    """Replace the data and start time of a pending job; after a running one, run the new job."""
    AGAIN = "again"
    """Replace the data of a pending job, keep its start time; after a running one, run the new job.
    """
    REJECT = "reject"
    """Refuse the new job with `Duplicate`."""
    ONCE = "once"
    """Do not enqueue the new job, even after the other has ended: its key is remembered without
    limit, or for the time ``once_for``.
    """


class Runtime(Enum):
    """How a handler runs."""

    TWISTED = "twisted"
    """A coroutine that awaits Deferreds, or a function that may return a Deferred."""
    ASYNCIO = "asyncio"
    """A coroutine that awaits asyncio futures."""
    THREAD = "thread"
    """A plain function, run in a thread of the worker."""


def is_timeout(value: object) -> bool:
    """Tell whether a value is a time limit in seconds that a worker can enforce."""
    return type(value) in (int, float) and 0 < cast("float", value) <= LONGEST_TIMEOUT
