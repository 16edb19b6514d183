"""Remembers which hosts of a DSN do not answer, so that those that do are tried first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from twisted.internet.defer import CancelledError

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.conninfo import ConnectAttempt

__all__ = ["SlowHosts"]

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
