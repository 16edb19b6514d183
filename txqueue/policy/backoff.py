"""Pauses of services between attempts, such as to connect, that grow with each failure in a row.

When a failed job runs again is another matter: see `model.job_policy`.
"""

from __future__ import annotations

from attrs import define, field

# The part of a pause by which chance shortens it at most: so the longest pauses differ, too.
JITTER = 0.5


@define
class Backoff:
    """The pauses between attempts: each is longer than the one before, up to a limit.

    Args:
        first: The first pause, in seconds.
        longest: The longest pause, in seconds.
        factor: By how much each is longer than the one before.

    Attributes:
        pause: The next pause, in seconds.
    """

    first: float
    longest: float
    factor: float = 2.0
    pause: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin with the first pause."""
        self.reset()

    @property
    def is_fresh(self) -> bool:
        """Whether no pause was taken since the last success."""
        return self.pause == self.first

    def reset(self) -> None:
        """Begin again with the first pause, after a success."""
        self.pause = self.first

    def take(self, chance: float = 0.0) -> float:
        """Return the pause after another failure; the next one is longer.

        Args:
            chance: A random number in [0, 1) that shortens the pause by up to a half, for processes
                that fail together and must not try again together; 0 for the whole pause.
        """
        pause, self.pause = self.pause, min(self.pause * self.factor, self.longest)
        return pause * (1 - JITTER * chance)
