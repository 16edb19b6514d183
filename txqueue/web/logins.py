"""The users of the dashboard, their logins and the limits on these, and who sent a request.

The hash is scrypt (RFC 7914) with the parameters that OWASP's password storage cheat sheet gives.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from txqueue.errors import AdminRefused, ConfigurationError
from txqueue.system.descriptors import read_private
from txqueue.web.messages import Role, Visitor
from txqueue.wire.guarded_pipes import network_of
from txqueue.wire.tls import caller_of

# Work, block size and parallelism, and what these need of memory, with some reserve.
_N, _R, _P = 2**15, 8, 3
_MEMORY: Final = 128 * _N * _R * 2
NO_PASSWORD = "-"
"""Stands for the hash of a user that only a proxy identifies."""
_ROLES: Final = {"viewer": Role.VIEWER, "operator": Role.OPERATOR}


@frozen
class User:
    """A line of the file.

    Attributes:
        name: The name.
        role: What the user may do.
        salt: The salt of the hash; empty for a user without a password.
        digest: The hash.
    """

    name: str
    role: Role
    salt: bytes = field(default=b"", repr=False)
    digest: bytes = field(default=b"", repr=False)

    def has_password(self, password: str) -> bool:
        """Tell whether a password is the user's; takes about 0.1 s of CPU."""
        digest = _digest(password, self.salt)
        return bool(self.salt) and hmac.compare_digest(digest, self.digest)


def read_users(path: Path) -> Mapping[str, User]:
    """Read the file of users.

    Raises:
        ConfigurationError: When the file cannot be read, others may change it, or a line is not
            valid.
    """
    lines = enumerate(read_private(path, "the users", "--web-users").splitlines(), 1)
    users = [_user(path, number, line) for number, line in lines if line.strip()]
    return {user.name: user for user in users}


def user_line(name: str, role: str, password: str | None) -> str:
    """Return the line of a user.

    Args:
        name: The name, without white space.
        role: ``viewer`` or ``operator``.
        password: The password; None for a user that only a proxy identifies.
    """
    if password is None:
        return f"{name} {role} {NO_PASSWORD}"
    salt = os.urandom(16)
    secret = ":".join(b64encode(part).decode() for part in (salt, _digest(password, salt)))
    return f"{name} {role} scrypt:{secret}"


def without_user(text: str, name: str) -> str:
    """Return the text of a file of users without the lines of one."""
    lines = [line for line in text.splitlines() if line.split()[:1] != [name]]
    return "".join(f"{line}\n" for line in lines)


# Compared with for names that do not exist, which then take as long as others.
_ABSENT = User("", Role.STRANGER, secrets.token_bytes(16), secrets.token_bytes(64))


def _digest(password: str, salt: bytes) -> bytes:
    octets = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(octets, salt=salt, n=_N, r=_R, p=_P, maxmem=_MEMORY)


def _user(path: Path, number: int, line: str) -> User:
    parts = line.split()
    if len(parts) == 3 and parts[1] in _ROLES:
        name, role, secret = parts[0], _ROLES[parts[1]], parts[2]
        if secret == NO_PASSWORD:
            return User(name, role)
        kind, _, rest = secret.partition(":")
        salt, _, digest = rest.partition(":")
        try:
            if kind == "scrypt" and salt and digest:
                return User(name, role, b64decode(salt, validate=True), b64decode(digest))
        except ValueError:
            pass
    raise ConfigurationError(
        f"line {number} of {path} is not a user", f"write it with: txqueue web-user {path} NAME"
    )


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


@define
class TryRefused(Exception):
    """A try to log in did not begin.

    Args:
        text: Why, for the visitor.
        status: Whether the visitor's own tries are the reason, or all visitors together.
    """

    text: str
    status: HTTPStatus = HTTPStatus.TOO_MANY_REQUESTS


@frozen
class _Counted:
    tries: int
    last: float


@define
class Tries:
    """Counts the tries that have begun by key, those that still run too.

    Args:
        clock: Tells when a try begins.
    """

    _clock: IReactorTime
    _counted: OrderedDict[Hashable, _Counted] = field(factory=OrderedDict, init=False)

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


@define
class PasswordChecks:
    """Checks passwords in a thread of its own, a limited number at a time.

    The reactor's threads look up the database's host, and must not wait for strangers.

    Args:
        reactor: Receives the results.
    """

    _reactor: IThreadedReactor
    _pool: ThreadPool | None = field(default=None, init=False)
    _checked: Counter[str] = field(factory=Counter, init=False)
    _is_closed: bool = field(default=False, init=False)

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
            busy = "Too many visitors log in just now: try again."
            raise TryRefused(busy, HTTPStatus.SERVICE_UNAVAILABLE)

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
        user = self._users.get(name, _ABSENT)
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


@define
class Notices:
    """Texts about acts, each shown once, on the page after the act."""

    _texts: OrderedDict[str, str] = field(factory=OrderedDict, init=False)

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


LOCAL_VISITOR = Visitor("a visitor of this host", Role.VIEWER)
"""A visitor over loopback while there are no users: may look, and not act."""
STRANGER = Visitor("", Role.STRANGER)
_NAME = re.compile(r"[^\x00-\x20\x7f]{1,200}")


@frozen
class IdentityProxy:
    """A proxy that identifies users.

    Attributes:
        name: The name of its certificate, or of its account over a unix socket.
        header: The header with the user's name; lower case.
    """

    name: str
    header: str


def parsed_proxy(text: str) -> IdentityProxy:
    """Read ``NAME:HEADER``.

    Raises:
        ConfigurationError: When the text is not valid.
    """
    name, _, header = text.rpartition(":")
    if not name or not re.fullmatch(r"[A-Za-z0-9-]+", header):
        raise ConfigurationError(
            f"{text!r} does not name a proxy and its header",
            "write NAME:HEADER, such as www-data:X-Forwarded-User",
        )
    return IdentityProxy(name, header.lower())


@frozen
class Identification:
    """Identifies visitors.

    Attributes:
        users: The users by name; None if none are configured.
        logins: Who has logged in.
        proxy: The proxy that identifies users; None for none.
        caller: Returns the name of the operator of a connection.
    """

    users: Mapping[str, User] | None = field(repr=False)
    logins: Logins | None
    proxy: IdentityProxy | None = None
    caller: Callable[[object], str] = caller_of

    def visitor(
        self, transport: object, secret: str | None, headers: Mapping[str, str | None]
    ) -> Visitor:
        """Return who sent a request.

        Args:
            transport: The connection's transport.
            secret: The secret of the login's cookie; None for no cookie.
            headers: The headers by lower-case name.
        """
        logged_in = None if self.logins is None else self.logins.visitor(secret)
        if logged_in is not None:
            return logged_in
        try:
            name = self.caller(transport)
        except AdminRefused:
            is_tls = hasattr(transport, "getPeerCertificate")
            return LOCAL_VISITOR if self.users is None and not is_tls else STRANGER
        if self.proxy is not None and name == self.proxy.name:
            return self._forwarded(headers.get(self.proxy.header))
        return Visitor(name, Role.OPERATOR)

    def _forwarded(self, name: str | None) -> Visitor:
        """Return the visitor that the proxy names; only the file of users has operators."""
        if name is None or not _NAME.fullmatch(name):
            return STRANGER
        user = (self.users or {}).get(name)
        return Visitor(name, Role.VIEWER if user is None else user.role)
