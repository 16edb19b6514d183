"""The file of users: a line for each, with a name, a role and a hash of the password.

The hash is scrypt (RFC 7914) with the parameters that OWASP's password storage cheat sheet gives.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

from txqueue.errors import ConfigurationError
from txqueue.system.private_files import read_private
from txqueue.web.visitors import Role

__all__ = ["NO_PASSWORD", "User", "read_users", "user_line", "without_user"]

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


def absent_user() -> User:
    """Return a user whose password no one can know."""
    return _ABSENT


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
