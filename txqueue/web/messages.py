"""A request as the pages see it, who sent it, the handler of its path, and a page's reply."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import IntEnum
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from attrs import field, frozen

from txqueue.errors import ConfigurationError
from txqueue.model.humanize import meant, plain


class Role(IntEnum):
    """What a visitor may do; a higher role may do all that a lower one may."""

    STRANGER = 0
    VIEWER = 1
    OPERATOR = 2


@frozen
class Visitor:
    """A person who uses the dashboard.

    Attributes:
        name: The name that acts are recorded with.
        role: What the person may do.
        can_leave: Whether the person logged in, and so can log out.
    """

    name: str
    role: Role
    can_leave: bool = False

    @property
    def may_act(self) -> bool:
        """Whether the person may change anything."""
        return self.role >= Role.OPERATOR


LOGIN, NOTICE, THEME = "txqueue_login", "txqueue_notice", "txqueue_theme"
DEVICE = "txqueue_device"
"""The names of the cookies."""

Fields = Mapping[str, Sequence[str]]


@frozen
class PageRequest:
    """A request that passed all checks.

    Attributes:
        path: The path below the dashboard's base path, decoded.
        names: The parts of the path that its route names.
        query: The fields of the address.
        form: The fields of the body.
        visitor: Who sent it.
        notice: A text about the visitor's last act, shown once; empty for none.
        is_dark: The theme that the visitor chose; None for the browser's.
        secret: The secret of the visitor's login; None for no login.
        is_part: Whether only the changing part of the page is asked for.
        sender: The address that the request came from; empty for a unix socket.
        device: The text that identifies the browser of an earlier login; None for none.
        mark: The mark of the database that the page shows; each of its forms that acts carries it.
    """

    path: str
    visitor: Visitor
    names: Mapping[str, str] = field(factory=dict)
    query: Fields = field(factory=dict)
    form: Fields = field(factory=dict, repr=False)
    notice: str = ""
    is_dark: bool | None = None
    secret: str | None = field(default=None, repr=False)
    is_part: bool = False
    sender: str = ""
    device: str | None = field(default=None, repr=False)
    mark: str = ""

    def asked(self, name: str) -> str | None:
        """Return a field of the address without white space around it; None if empty or absent."""
        return _first(self.query, name)

    def sent(self, name: str) -> str | None:
        """Return a field of the body without white space around it; None if empty or absent."""
        return _first(self.form, name)

    def exact(self, name: str) -> str | None:
        """Return a field of the address, or of the body, as it is; None if empty or absent.

        For names, which may begin and end with white space.
        """
        values = self.query.get(name) or self.form.get(name)
        return (values[0] or None) if values else None

    def number(self, name: str) -> int | None:
        """Return a field of the address as the number of a row; None if it is none."""
        text = self.asked(name) or ""
        return int(text) if text.isdecimal() and len(text) < 19 else None

    def all_of(self, name: str) -> list[str]:
        """Return the values of a field of the address, or else of the body, but for blank ones."""
        values = self.query.get(name) or self.form.get(name, ())
        return [value for value in values if value.strip()]

    def way_back(self) -> str:
        """Return the page of this dashboard that the field ``back`` names; never another site's."""
        path = self.exact("back") or "/"
        is_local = path.startswith("/") and not path.startswith(("//", "/\\"))
        return path if is_local and path.isprintable() else "/"

    def address(self, **changes: object) -> str:
        """Return the query of this page's address with some fields changed; None removes one.

        A list gives a field several values.
        """
        fields = {**{name: self.all_of(name) for name in self.query}, **changes}
        filled = {name: value for name, value in fields.items() if value not in (None, [])}
        return f"?{urlencode(filled, doseq=True)}" if filled else "?"


@frozen
class Reply:
    """A reply.

    Attributes:
        status: The status code.
        body: The content.
        kind: The media type of the content.
        location: The path to go to, below the dashboard's base path; None to stay.
        cookies: Cookies to set; an empty value removes one.
        is_fixed: Whether the content never changes under this address, so that it may be stored.
    """

    status: int = HTTPStatus.OK
    body: bytes = field(default=b"", repr=False)
    kind: str = "text/html; charset=utf-8"
    location: str | None = None
    cookies: Mapping[str, str] = field(factory=dict, repr=False)
    is_fixed: bool = False


def html(text: str, status: int = HTTPStatus.OK) -> Reply:
    """Return a page. Lone surrogates of a database or an address are replaced."""
    return Reply(status, text.encode("utf-8", "replace"))


def redirect(location: str, cookies: Mapping[str, str] | None = None) -> Reply:
    """Return a reply that leads to another page, also after a form was sent."""
    return Reply(HTTPStatus.SEE_OTHER, location=location, cookies=cookies or {})


REPEATED = ("tag", "payload")
"""The fields of an address that may have several values."""


def _first(fields: Fields, name: str) -> str | None:
    values = fields.get(name, ())
    return (values[0].strip() or None) if values else None


Handler = Callable[[Any], Awaitable[Any]]


@frozen
class Route:
    """A kind of request that the dashboard answers.

    Attributes:
        method: ``GET`` or ``POST``.
        pattern: The path; ``{name}`` stands for a part of it.
        role: The least role of a visitor.
        handler: Answers it.
        fields: The names that its address or its form may have. One with any other is refused, as
            a misspelt filter must not be taken for none.
        title: The name of its page in the menu; empty for none.
    """

    method: str
    pattern: str
    role: Role
    handler: Handler
    fields: Collection[str] = ()
    title: str = ""

    def match(self, path: str) -> Mapping[str, str] | None:
        """Return the named parts of a path; None if it is another one."""
        matched = _compiled(self.pattern).fullmatch(path)
        return None if matched is None else matched.groupdict()

    def check(self, query: Fields, form: Fields) -> None:
        """Check the names that the address and the form of a request have.

        Raises:
            ConfigurationError: When one is unknown, or has several values in the address.
        """
        for name in (*query, *form):
            if name not in self.fields:
                valid = f"those of this page: {', '.join(sorted(self.fields)) or 'none'}"
                raise ConfigurationError(
                    f"there is no filter or field {plain(name)[:50]}",
                    meant(name, self.fields) or valid,
                )
            values = {value.strip() for value in query.get(name, ())} - {""}
            if name not in REPEATED and len(values) > 1:
                raise ConfigurationError(
                    f"the address has several values for {name}", "choose one of them"
                )


def page(path: str, handler: Handler, title: str = "", *fields: str) -> Route:
    """Return the route of a page for viewers; one with a title is in the menu."""
    return Route("GET", path, Role.VIEWER, handler, fields, title)


def routes_by_method(
    routes: Sequence[Route], path: str
) -> dict[str, tuple[Route, Mapping[str, str]]]:
    """Return the routes of a path by method, the first of each, with the path's named parts."""
    found = ((route, route.match(path)) for route in reversed(routes))
    return {route.method: (route, names) for route, names in found if names is not None}


_NAMED = re.compile(r"\{(\w+)\}")


def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern; `re` keeps those it has compiled."""
    # Names are at the odd places.
    parts = enumerate(_NAMED.split(pattern))
    texts = (f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in parts)
    return re.compile("".join(texts), re.DOTALL)
