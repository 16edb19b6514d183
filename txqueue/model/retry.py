"""The retry policy of jobs: whether and when a job runs again after a failed attempt.

The pauses of services between attempts of their own are in `policy.backoff`.
"""

import math
from typing import Any, Final

import attrs
from attrs import field, frozen
from attrs.validators import ge, gt, instance_of, le

__all__ = ["LONGEST_DELAY", "MOST_ATTEMPTS", "Retry"]

MOST_ATTEMPTS: Final = 32_767
"""The largest number of attempts that the database's smallint can count."""

DOUBLED: Final = 2.0
LONGEST_DELAY: Final = 3_155_760_000
"""The longest delay before a job runs again, a hundred years in seconds."""


def _finite(_: object, attribute: "attrs.Attribute[float]", value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"'{attribute.name}' must be a finite number: {value}")


def _exceptions(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if not isinstance(value, tuple) or not all(map(_is_exception, value)):
        raise TypeError(f"'{attribute.name}' must be a tuple of exception classes: {value!r}")


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


@frozen
class Retry:
    """A retry policy: exponential or linear backoff with jitter.

    Attributes:
        attempts: How many runs a job gets in all, at most 32,767; 1 means no retry.
        first: Seconds before the second attempt.
        factor: The ratio of each delay to the one before.
        linear: Whether each delay is longer than the one before by ``first`` instead: with
            ``Retry(first=300, linear=True)`` they are 5, 10, 15 minutes.
        longest: The longest delay in seconds.
        jitter: The fraction, 0 to 1, by which each delay is randomly lengthened or shortened,
            so that jobs that failed together are not retried together.
        fatal: Exception classes that make the job fail at once, without a retry.
    """

    attempts: int = field(default=10, validator=[instance_of(int), ge(1), le(MOST_ATTEMPTS)])
    first: float = field(default=1.0, validator=[ge(0), _finite])
    factor: float = field(default=DOUBLED, validator=[ge(1), _finite])
    longest: float = field(default=3600.0, validator=[gt(0), le(LONGEST_DELAY)])
    jitter: float = field(default=0.2, validator=[ge(0), le(1)])
    fatal: tuple[type[BaseException], ...] = field(default=(), validator=_exceptions)
    linear: bool = field(default=False, validator=instance_of(bool), kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.linear and self.factor != DOUBLED:
            raise ValueError("'factor' has no effect on linear delays: leave it or 'linear' out")

    def delay(self, failures: int, chance: float) -> float:
        """Return how long to wait after a failed attempt.

        Args:
            failures: The number of failed attempts so far, at least 1.
            chance: A random number in [0, 1) that decides the jitter.

        Returns:
            Seconds.
        """
        base = min(self._unbounded(failures), self.longest)
        return min(base * (1 + self.jitter * (2 * chance - 1)), self.longest)

    def _unbounded(self, failures: int) -> float:
        if self.linear:
            return self.first * failures
        # A larger power would overflow a float; longest caps the delay anyway.
        power = min(failures - 1, 500)
        try:
            return self.first * self.factor**power
        except OverflowError:
            return self.longest if self.first else 0.0

    def is_spent(self, failures: int) -> bool:
        """Tell whether no attempt is left after a number of failed ones."""
        return failures >= self.attempts
