"""Limits on logins: how many tries begin, and how many passwords are checked at a time."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Final, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from txqueue.web.users import User

__all__ = ["IThreadedReactor", "PasswordChecks", "Tries", "TryRefused"]

T = TypeVar("T")

# After FREE_TRIES tries without success, one begins each PAUSE seconds; after FORGOTTEN seconds
# without a try they are forgotten.
FREE_TRIES: Final = 5
PAUSE: Final = 10.0
FORGOTTEN: Final = 900.0
# The most keys whose tries are counted; those tried the longest ago are forgotten first.
MOST_KEPT: Final = 10_000
# The most passwords that are checked or wait for it, and the most of them from one address. A check
# takes 0.1 s to 0.3 s of a processor.
MOST_CHECKED: Final = 16
MOST_OF_ADDRESS: Final = 4
# Of them, so many are kept free for browsers that have logged in before, and so many more for
# addresses of which no password is checked or waits.
KEPT_FOR_KNOWN: Final = 4
KEPT_FOR_FIRST: Final = 4


class TryRefused(Exception):
    """A try to log in did not begin.

    Args:
        text: Why, for the visitor.
        is_busy: Whether all visitors together are the reason, and not the visitor's own tries.
    """

    def __init__(self, text: str, *, is_busy: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.is_busy = is_busy


@frozen
class _Counted:
    tries: int
    last: float


class Tries:
    """Counts the tries that have begun by key, those that still run too.

    Args:
        clock: Tells when a try begins.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._counted: OrderedDict[Hashable, _Counted] = OrderedDict()

    def begin(self, key: Hashable) -> bool:
        """Count a try unless it must wait; return whether it may begin."""
        now = self._clock.seconds()
        counted = self._counted.get(key, _Counted(0, now))
        silent = now - counted.last
        tries = 0 if silent >= FORGOTTEN else counted.tries
        if tries >= FREE_TRIES and silent < PAUSE:
            return False
        self._counted[key] = _Counted(tries + 1, now)
        self._counted.move_to_end(key)
        if len(self._counted) > MOST_KEPT:
            self._counted.popitem(last=False)
        return True

    def forget(self, key: Hashable) -> None:
        """Forget the tries of a key, as one succeeded."""
        self._counted.pop(key, None)


class IThreadedReactor(IReactorFromThreads, IReactorTime):
    """The reactor as checks need it."""


class PasswordChecks:
    """Checks passwords in a thread of its own, a limited number at a time.

    The reactor's threads look up the database's host, and must not wait for strangers.

    Args:
        reactor: Receives the results.
    """

    def __init__(self, reactor: IThreadedReactor) -> None:
        self._reactor = reactor
        self._pool: ThreadPool | None = None
        self._checked: Counter[str] = Counter()
        self._is_closed = False

    def ensure_room(self, address: str, *, is_known: bool) -> None:
        """Check that another password may be checked.

        Args:
            address: Where the try comes from.
            is_known: Whether its browser has logged in before.

        Raises:
            TryRefused: When too many are being checked.
        """
        of_address = self._checked[address]
        limit = MOST_CHECKED
        if not is_known:
            limit -= KEPT_FOR_KNOWN + (KEPT_FOR_FIRST if of_address else 0)
        if of_address >= MOST_OF_ADDRESS or self._checked.total() >= limit:
            raise TryRefused("Too many visitors log in just now: try again.", is_busy=True)

    def check(self, user: User, password: str, address: str) -> Deferred[bool]:
        """Return whether a password is the user's.

        Args:
            user: The user.
            password: The password.
            address: Where the try comes from.
        """
        self._checked[address] += 1
        checking = deferToThreadPool(self._reactor, self._started(), self._check, user, password)
        return checking.addBoth(self._ended, address)

    def close(self) -> None:
        """End the thread; checks that wait fail."""
        self._is_closed = True
        if self._pool is not None:
            self._pool.stop()
            self._pool = None

    def _started(self) -> ThreadPool:
        if self._pool is None:
            self._pool = ThreadPool(0, 1, "logins")
            self._pool.start()
        return self._pool

    def _check(self, user: User, password: str) -> bool:
        return not self._is_closed and user.has_password(password)

    def _ended(self, result: T, address: str) -> T:
        self._checked[address] -= 1
        if not self._checked[address]:
            del self._checked[address]
        return result
