"""Tells who sent a request: by login, certificate, account, or the word of a named proxy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from attrs import field, frozen

from txqueue.errors import AdminRefused, ConfigurationError
from txqueue.web.logins import Logins
from txqueue.web.users import User
from txqueue.web.visitors import Role, Visitor
from txqueue.wire.identity import caller_of

__all__ = ["LOCAL_VISITOR", "Identification", "IdentityProxy", "parsed_proxy"]

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
            return LOCAL_VISITOR if self.users is None and not _is_tls(transport) else STRANGER
        if self.proxy is not None and name == self.proxy.name:
            return self._forwarded(headers.get(self.proxy.header))
        return Visitor(name, Role.OPERATOR)

    def _forwarded(self, name: str | None) -> Visitor:
        """Return the visitor that the proxy names; only the file of users has operators."""
        if name is None or not _NAME.fullmatch(name):
            return STRANGER
        user = (self.users or {}).get(name)
        return Visitor(name, Role.VIEWER if user is None else user.role)


def _is_tls(transport: object) -> bool:
    return hasattr(transport, "getPeerCertificate")
