"""Directives: what a handler may raise or return to decide its job's outcome."""

from datetime import timedelta
from typing import Any, Final, Unpack

from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.humanize import brief
from txqueue.model.retry import LENGTHS, length_in_seconds
from txqueue.model.work_item import WorkItem

__all__ = ["DIRECTIVES", "Discard", "Fail", "Next", "Snooze", "snooze_delay"]


def snooze_delay(delay: Any) -> float:
    """Return the delay of a snooze in seconds.

    Raises:
        ValueError: When it is negative, longer than a hundred years, or no number.
    """
    seconds = length_in_seconds(delay)
    if seconds is None:
        raise ValueError(f"a job cannot snooze for {brief(delay)}: pass {LENGTHS}")
    return seconds


class Snooze(Exception):
    """Raised or returned by a handler to run its job again after a delay, as the same attempt.

    Args:
        delay: A number of seconds or a timedelta, from 0 to a hundred years.

    Raises:
        ValueError: When the delay is negative, too long or not a number.
    """

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(delay)
        self.delay = snooze_delay(delay)


class Discard(Exception):
    """Raised or returned by a handler to end its job as cancelled: its work is no longer needed.

    Args:
        reason: Stored with the job.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Fail(Exception):
    """Raised or returned by a handler to end its job as failed, even if attempts are left.

    Args:
        reason: Stored with the job.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Next(Exception):
    """Raised or returned by a handler to continue its job as other work, with new attempts.

    The job keeps its number and ends with its last stage: until then it holds its unique key, and
    callers that wait for it go on waiting. Queue, priority, group and other policy are those of the
    new work. A handler that completes its job in ``job.transaction()`` calls ``job.then`` instead.

    Args:
        work: The next stage.
        options: As for ``WorkQueue.enqueue``, except unique keys and ``after``.

    Raises:
        ValueError: When an option is about other jobs.
    """

    def __init__(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> None:
        super().__init__(work)
        self.work = work
        self.options = options
        if excluded := {"unique", "unique_mode", "after", "after_any_end"} & options.keys():
            raise ValueError(f"a next stage has no option {', '.join(sorted(excluded))}")


DIRECTIVES: Final = (Snooze, Discard, Fail, Next)
"""All directives."""
