"""Decides, without I/O, whether a request may come in: its host, its origin and its size."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final

from attrs import frozen

__all__ = ["LONGEST_BODY", "SECURITY_HEADERS", "Refusal", "foreign_host", "foreign_origin"]

LONGEST_BODY: Final = 1_000_000
"""The most bytes of a form."""

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Sent with every reply."""

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


@frozen
class Refusal:
    """Why a request is refused.

    Attributes:
        status: The status code.
        what: What is wrong.
        remedy: What to do.
    """

    status: HTTPStatus
    what: str
    remedy: str


def foreign_host(host: str | None, allowed: Collection[str] | None) -> Refusal | None:
    """Refuse a request for another host than this one, as DNS rebinding makes them.

    Args:
        host: The header ``Host``.
        allowed: The names besides loopback's; None to allow any.
    """
    if allowed is None or _name(host or "") in _LOOPBACK | {name.lower() for name in allowed}:
        return None
    return Refusal(
        HTTPStatus.MISDIRECTED_REQUEST,
        "the dashboard does not answer to this host name",
        "name it with --web-host, or use localhost",
    )


def foreign_origin(headers: Mapping[str, str | None]) -> Refusal | None:
    """Refuse a form that another site sent (CSRF).

    Browsers of today tell by ``Sec-Fetch-Site``, older ones by ``Origin``. A request with neither
    does not come from a browser of today or yesterday, and is refused.

    Args:
        headers: ``sec-fetch-site``, ``origin`` and ``host``.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        is_own = site == "same-origin"
    else:
        is_own = origin is not None and origin.partition("://")[2] == (headers.get("host") or "")
    if is_own:
        return None
    return Refusal(
        HTTPStatus.FORBIDDEN,
        "the form was sent by another site",
        "act from the dashboard's own pages",
    )


def _name(host: str) -> str:
    """Return the name of a ``Host`` header, without the port."""
    host = host.strip().lower()
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
