"""The reconnect backoff, shared by all connections of a node; hosts that do not answer are tried
last.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from twisted.internet.defer import CancelledError

from txqueue.errors import DatabaseUnavailable
from txqueue.policy.backoff import JITTER, Backoff
from txqueue.store.driver.hosts import ConnectAttempt

# Seconds after which a failed attempt counts as slow: a host that refuses does so at once. And
# seconds after which the DSN's order counts again.
SLOW: Final = 0.5
REMEMBERED: Final = 60.0
_NAMING: Final = ("host", "hostaddr", "port")


class SlowHosts:
    """The hosts and addresses at which the last attempt to connect failed slowly, or was cancelled.

    A host that hangs costs each attempt its whole time limit: if it is the first one of the DSN, a
    standby that was promoted meanwhile is asked that much later.

    Args:
        now: Returns the time by the monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: dict[tuple[object, ...], float] = {}

    def last(self, attempts: Iterable[ConnectAttempt]) -> list[ConnectAttempt]:
        """Return the attempts in their order, but those at slow hosts after all others."""
        return sorted(attempts, key=self._is_slow)

    @contextmanager
    def timing(self, attempt: ConnectAttempt) -> Iterator[None]:
        """Make an attempt, and remember whether it failed slowly."""
        began = self._now()
        is_slow = False
        try:
            yield
        except DatabaseUnavailable:
            is_slow = self._now() - began >= SLOW
            raise
        except CancelledError:
            # A caller with little time left would cancel each attempt at the first host, and never
            # reach the next one.
            is_slow = True
            raise
        finally:
            self._note(attempt, is_slow=is_slow)

    def _note(self, attempt: ConnectAttempt, *, is_slow: bool) -> None:
        if is_slow:
            self._since[_name_of(attempt)] = self._now()
        else:
            self._since.pop(_name_of(attempt), None)

    def _is_slow(self, attempt: ConnectAttempt) -> bool:
        since = self._since.get(_name_of(attempt), float("-inf"))
        return self._now() - since < REMEMBERED


def _name_of(attempt: ConnectAttempt) -> tuple[object, ...]:
    return tuple(attempt.parameters.get(name) for name in _NAMING)


FIRST, LONGEST = 0.1, 2.0
# Seconds that follow the end of a failed attempt at least.
LEAST = FIRST * JITTER


class ReconnectBackoff:
    """After a failed attempt to connect, fails further ones at once, for a growing time.

    The time counts from the start of the attempt, which takes long where a host does not answer.

    Args:
        now: Returns the time by the monotonic clock.
        longest: The longest such time in seconds, at most two.

    Attributes:
        slow_hosts: The hosts that did not answer recently.
        on_failure: Called when such a time begins.
        on_recovery: Called when an attempt succeeds after one that failed.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, *, longest: float = LONGEST
    ) -> None:
        self._now = now
        self._until = float("-inf")
        self._backoff = Backoff(FIRST, min(longest, LONGEST))
        self._failure: DatabaseUnavailable | None = None
        self.slow_hosts = SlowHosts(now)
        self.on_failure: Callable[[], None] = lambda: None
        self.on_recovery: Callable[[], None] = lambda: None

    @property
    def failure(self) -> str | None:
        """Why the last attempt to connect has failed; None if it succeeded."""
        return None if self._failure is None else self._failure.what

    @property
    def left(self) -> float | None:
        """The seconds until an attempt may be made; None if the last one succeeded."""
        return None if self._failure is None else max(0.0, self._until - self._now())

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Make one attempt to connect.

        Raises:
            DatabaseUnavailable: When this attempt fails, or at once, with the previous error, when
                an attempt has just failed.
        """
        began = self._now()
        if self._failure is not None and began < self._until:
            raise DatabaseUnavailable(*self._failure.args)
        try:
            yield
        except DatabaseUnavailable as error:
            self._pause(error, began)
            raise
        self._backoff.reset()
        failure, self._failure = self._failure, None
        if failure is not None:
            self.on_recovery()

    def _pause(self, error: DatabaseUnavailable, began: float) -> None:
        self._failure = error
        now = self._now()
        if now < self._until:
            # Concurrent attempts to connect that failed together count as one.
            return
        self._until = max(began + self._backoff.take(random.random()), now + LEAST)
        self.on_failure()
