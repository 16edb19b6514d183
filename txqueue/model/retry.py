"""The retry policy of jobs: whether and when a job runs again after a failed attempt.

The pauses of services between attempts of their own are in `policy.backoff`.
"""

import math
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import attrs
from attrs import field, frozen

from txqueue.errors import InvalidWork
from txqueue.model.humanize import brief

__all__ = ["LENGTHS", "LONGEST_DELAY", "MOST_ATTEMPTS", "Retry", "length_in_seconds"]

MOST_ATTEMPTS: Final = 32_767
"""The largest number of attempts that the database's smallint can count."""

DOUBLED: Final = 2.0
MOST_NUMBER: Final = sys.float_info.max
LONGEST_DELAY: Final = 3_155_760_000
"""The longest delay before a job runs again, a hundred years in seconds."""
LENGTHS: Final = (
    "0 to 100 years, as seconds or a timedelta; for a moment that may have passed, max(0, seconds)"
)
"""Which lengths of time a handler may pass."""


_Validator = Callable[[object, "attrs.Attribute[Any]", Any], None]


def length_in_seconds(length: Any) -> float | None:
    """Return a length of time that a handler has passed, in seconds; None if it is not valid."""
    if isinstance(length, timedelta):
        length = length.total_seconds()
    elif isinstance(length, str | bytes | bool):
        return None
    try:
        seconds = float(length)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= LONGEST_DELAY else None


def _seconds(value: object) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _refuse(name: str, value: object, wanted: str, example: str) -> InvalidWork:
    return InvalidWork(f"{name} of a Retry is {brief(value)}, not {wanted}", f"write {example}")


def _whole(least: int, most: int) -> _Validator:
    def check(_: object, attribute: "attrs.Attribute[int]", value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            wanted = f"a whole number from {least} to {most:,}"
            raise _refuse(attribute.name, value, wanted, f"Retry({attribute.name}=5)")

    return check


def _number(wanted: str, holds: Callable[[float], bool]) -> _Validator:
    """Return the validator of a finite number.

    Args:
        wanted: Which numbers are valid, for people.
        holds: Tells whether a number is.
    """

    def check(_: object, attribute: "attrs.Attribute[float]", value: Any) -> None:
        if not _is_finite(value) or not holds(value):
            example = f"Retry({attribute.name}={attribute.default:g})"
            raise _refuse(attribute.name, value, wanted, example)

    return check


def _is_finite(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    # An int may be too large for math.isfinite().
    return abs(value) <= MOST_NUMBER and not math.isnan(value)


def _exceptions(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if not isinstance(value, tuple) or not all(map(_is_exception, value)):
        wanted, example = "a tuple of exception classes", "Retry(fatal=(ValueError, KeyError))"
        raise _refuse(attribute.name, value, wanted, example)


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _flag(_: object, attribute: "attrs.Attribute[bool]", value: object) -> None:
    if not isinstance(value, bool):
        raise _refuse(attribute.name, value, "True or False", "Retry(first=300, linear=True)")


@frozen
class Retry:
    """A retry policy: exponential or linear backoff with jitter.

    Attributes:
        attempts: How many runs a job gets in all, at most 32,767; 1 means no retry.
        first: Seconds before the second attempt; a number or a timedelta.
        factor: The ratio of each delay to the one before.
        linear: Whether each delay is longer than the one before by ``first`` instead: with
            ``Retry(first=300, linear=True)`` they are 5, 10, 15 minutes.
        longest: The longest delay in seconds; a number or a timedelta.
        jitter: The fraction, 0 to 1, by which each delay is randomly lengthened or shortened,
            so that jobs that failed together are not retried together.
        fatal: Exception classes that make the job fail at once, without a retry.

    Raises:
        InvalidWork: When a value is not valid.
    """

    attempts: int = field(default=10, validator=_whole(1, MOST_ATTEMPTS))
    first: float = field(
        default=1.0,
        converter=_seconds,
        validator=_number("a number of seconds from 0 on", lambda value: value >= 0),
    )
    factor: float = field(
        default=DOUBLED, validator=_number("a number from 1 on", lambda value: value >= 1)
    )
    longest: float = field(
        default=3600.0,
        converter=_seconds,
        validator=_number(
            "seconds above 0, at most a hundred years", lambda value: 0 < value <= LONGEST_DELAY
        ),
    )
    jitter: float = field(
        default=0.2, validator=_number("a number from 0 to 1", lambda value: 0 <= value <= 1)
    )
    fatal: tuple[type[BaseException], ...] = field(default=(), validator=_exceptions)
    linear: bool = field(default=False, validator=_flag, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.linear and self.factor != DOUBLED:
            raise InvalidWork("factor has no effect on linear delays", "leave out factor or linear")

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
