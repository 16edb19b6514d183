"""What a handler may say besides returning or raising; raise one of these or return it."""

import math

__all__ = ["Discard", "Fail", "Snooze"]


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
