"""What a handler may say besides returning or raising; raise one of these or return it."""

import math
from typing import Any

from txqueue.model.work_item import WorkItem

__all__ = ["Discard", "Fail", "Next", "Snooze"]


class Snooze(Exception):
    """Run the job again after a delay, without spending an attempt.

    Args:
        delay: Seconds.

    Raises:
        ValueError: When that is no finite number.
    """

    def __init__(self, delay: float) -> None:
        super().__init__(delay)
        self.delay = float(delay)
        if not math.isfinite(self.delay):
            raise ValueError(f"a job cannot snooze for {delay} seconds")


class Discard(Exception):
    """End the job as cancelled: there is nothing left to do.

    Args:
        reason: Kept with the job.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Fail(Exception):
    """End the job as failed, whatever attempts are left.

    Args:
        reason: Kept with the job.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Next(Exception):
    """Have the job go on as other work, under the same number and with all its attempts.

    It ends with its last stage: until then no waiting caller is told, and its unique key is
    held. Its queue, priority, group and so on are those of the new work. A job that its own
    transaction has completed does not go on: use ``job.then`` there.

    Args:
        work: The next stage.
        options: As for ``WorkQueue.enqueue``, but for those about other jobs.

    Raises:
        ValueError: When an option is about other jobs.
    """

    def __init__(self, work: WorkItem, **options: Any) -> None:
        super().__init__(work)
        self.work = work
        self.options = options
        if others := {"unique", "unique_mode", "after", "after_any_end"} & options.keys():
            raise ValueError(f"a next stage has no option {', '.join(sorted(others))}")
