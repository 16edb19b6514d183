"""Directives: what a handler may raise or return to decide its job's outcome."""

import math
from typing import Any

from txqueue.model.work_item import WorkItem

__all__ = ["Discard", "Fail", "Next", "Snooze"]


class Snooze(Exception):
    """Run the job again after a delay, without spending an attempt.

    Args:
        delay: Seconds.

    Raises:
        ValueError: When the delay is not a finite number.
    """

    def __init__(self, delay: float) -> None:
        super().__init__(delay)
        self.delay = float(delay)
        if not math.isfinite(self.delay):
            raise ValueError(f"a job cannot snooze for {delay} seconds")


class Discard(Exception):
    """End the job as cancelled, as its work is no longer needed.

    Args:
        reason: Stored with the job.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Fail(Exception):
    """End the job as failed, even if attempts are left.

    Args:
        reason: Stored with the job.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Next(Exception):
    """Continue the job as other work, under the same number and with a new set of attempts.

    The job ends with its last stage: until then callers go on waiting for it, and it holds its
    unique key. Queue, priority, group and other policy are those of the new work. A job that its
    own transaction has completed cannot continue this way: use ``job.then`` there.

    Args:
        work: The next stage.
        options: As for ``WorkQueue.enqueue``, except those about other jobs.

    Raises:
        ValueError: When an option is about other jobs.
    """

    def __init__(self, work: WorkItem, **options: Any) -> None:
        super().__init__(work)
        self.work = work
        self.options = options
        if others := {"unique", "unique_mode", "after", "after_any_end"} & options.keys():
            raise ValueError(f"a next stage has no option {', '.join(sorted(others))}")
