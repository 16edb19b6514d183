"""The logins of the dashboard's users, in memory, and the texts to show once."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from txqueue.web.login_limits import IThreadedReactor, PasswordChecks, Tries, TryRefused
from txqueue.web.users import User, absent_user
from txqueue.web.visitors import Role, Visitor
from txqueue.wire.connection_limits import network_of

__all__ = ["LoggedIn", "Logins", "Notices"]

# Seconds after which a login ends, and the most logins and notices; the oldest end first.
LASTS: Final = 12 * 3600.0
MOST: Final = 1000

KEY_USER: Final = User("developer", Role.OPERATOR)
"""Who logs in with the key."""


@frozen
class _Login:
    name: str
    until: float


@frozen
class LoggedIn:
    """What a browser gets that has logged in.

    Attributes:
        secret: The secret of the login's cookie.
        device: A text that identifies the browser at the next login; empty for none.
    """

    secret: str = field(repr=False)
    device: str = field(default="", repr=False)


class Logins:
    """Who has logged in, by the secret in each one's cookie.

    Args:
        reactor: Ends logins, and receives the results of checks.
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
        self._devices: OrderedDict[str, str] = OrderedDict()
        self._tries = Tries(reactor)
        self._checks = PasswordChecks(reactor)

    def close(self) -> None:
        """End the thread that checks passwords."""
        self._checks.close()

    async def log_in(
        self, name: str, password: str, address: str = "", device: str | None = None
    ) -> LoggedIn | None:
        """Log a user in; return None if the password is wrong.

        A browser that has logged in before waits only for its own tries, so that a user is not
        locked out by the tries of others, even of those behind the same proxy.

        Args:
            name: The user's name.
            password: The password.
            address: Where the try comes from.
            device: The text of the browser's last login, if it had one.

        Raises:
            TryRefused: When there were too many tries, or too many passwords are being checked.
        """
        is_known = self._devices.get(device or "") == name
        origin = str(device) if is_known else network_of(address)
        self._checks.ensure_room(origin, is_known=is_known)
        if not self._tries.begin((origin, name)):
            raise TryRefused("Too many tries: wait ten seconds.")
        # The check takes as long for a name that does not exist.
        user = self._users.get(name, absent_user())
        if not await self._checks.check(user, password, origin):
            return None
        self._tries.forget((origin, name))
        return LoggedIn(self._begin(name), self._remembered(name, device if is_known else None))

    def _remembered(self, name: str, device: str | None) -> str:
        """Remember the browser of a user; return the text that identifies it."""
        token = device or secrets.token_urlsafe(32)
        self._devices[token] = name
        self._devices.move_to_end(token)
        _shorten(self._devices)
        return token

    def log_in_by_key(self, key: str) -> str | None:
        """Log the holder of the key in; return the cookie's secret, None for a wrong key."""
        own_key = self._key
        if own_key is None or not hmac.compare_digest(key.encode(), own_key.encode()):
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


def _shorten(entries: OrderedDict[str, Any]) -> None:
    while len(entries) > MOST:
        entries.popitem(last=False)
