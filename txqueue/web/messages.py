"""A request as the pages see it, and a page's reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from urllib.parse import urlencode

from attrs import field, frozen

from txqueue.web.visitors import Visitor

__all__ = ["DEVICE", "LOGIN", "NOTICE", "THEME", "PageRequest", "Reply", "html", "redirect"]

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


def _first(fields: Fields, name: str) -> str | None:
    values = fields.get(name, ())
    return (values[0].strip() or None) if values else None
