"""The logins of the dashboard's users, in memory, and the texts to show once."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen
from twisted.internet.interfaces import IReactorThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool

from txqueue.web.users import User, absent_user
from txqueue.web.visitors import Role, Visitor

__all__ = ["Logins", "Notices"]

# Seconds after which a login ends, and the most logins and notices; the oldest end first.
LASTS: Final = 12 * 3600.0
MOST: Final = 1000
# After FREE_TRIES wrong passwords for a name, tries for it are refused for PAUSE seconds each.
FREE_TRIES, PAUSE = 5, 10.0


KEY_USER: Final = User("developer", Role.OPERATOR)
"""Who logs in with the key."""


@frozen
class _Login:
    name: str
    until: float


class IThreadedReactor(IReactorThreads, IReactorTime):
    """The reactor as logins need it."""


class Logins:
    """Who has logged in, by the secret in each one's cookie.

    Args:
        reactor: Ends logins; its threads check passwords.
        users: The users by name.
        key: A secret with which an operator logs in without a name; None for none.
    """

    def __init__(
        self, reactor: IThreadedReactor, users: Mapping[str, User], key: str | None = None
    ) -> None:
        self._reactor = reactor
        self._users = users if key is None else {**users, KEY_USER.name: KEY_USER}
        self._key = key
        self._logins: OrderedDict[str, _Login] = OrderedDict()
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def must_wait(self, name: str) -> bool:
        """Whether too many wrong passwords were tried for a name just now."""
        tries, last = self._wrong.get(name, (0, 0.0))
        return tries >= FREE_TRIES and self._reactor.seconds() - last < PAUSE

    async def log_in(self, name: str, password: str) -> str | None:
        """Log a user in; return the secret of the cookie, or None if the password is wrong."""
        # The check takes as long for a name that does not exist.
        user = self._users.get(name, absent_user())
        pool = self._reactor.getThreadPool()
        if not await deferToThreadPool(self._reactor, pool, user.has_password, password):
            tries, _ = self._wrong.pop(name, (0, 0.0))
            self._wrong[name] = (tries + 1, self._reactor.seconds())
            _shorten(self._wrong)
            return None
        self._wrong.pop(name, None)
        return self._begin(name)

    def log_in_by_key(self, key: str) -> str | None:
        """Log the holder of the key in; return the cookie's secret, None for a wrong key."""
        expected = self._key
        if expected is None or not hmac.compare_digest(key.encode(), expected.encode()):
            return None
        return self._begin(KEY_USER.name)

    def _begin(self, name: str) -> str:
        secret = secrets.token_urlsafe(32)
        self._logins[secret] = _Login(name, self._reactor.seconds() + LASTS)
        _shorten(self._logins)
        return secret

    def end(self, secret: str) -> None:
        """Log out."""
        self._logins.pop(secret, None)

    def visitor(self, secret: str | None) -> Visitor | None:
        """Return who logged in with a secret; None if there is no such login, or it has ended."""
        login = self._logins.get(secret or "")
        user = None if login is None else self._users.get(login.name)
        if login is None or user is None or self._reactor.seconds() >= login.until:
            return None
        return Visitor(user.name, user.role, can_leave=True)


class Notices:
    """Texts about acts, each shown once, on the page after the act."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()

    def put(self, text: str) -> str:
        """Keep a text; return the secret of the cookie."""
        secret = secrets.token_urlsafe(16)
        self._texts[secret] = text
        _shorten(self._texts)
        return secret

    def take(self, secret: str | None) -> str:
        """Return and forget a text; empty if there is none."""
        return self._texts.pop(secret or "", "")


def _shorten(kept: OrderedDict[str, Any]) -> None:
    while len(kept) > MOST:
        kept.popitem(last=False)
