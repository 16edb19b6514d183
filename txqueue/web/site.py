"""The dashboard over HTTP: checks each request, finds its handler, and writes the reply."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlencode

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.web import resource, server

from txqueue.errors import ConfigurationError, DatabaseUnavailable, JobNotFound, TxqueueError
from txqueue.store.driver.errors import Unanswered
from txqueue.web import messages
from txqueue.web.logins import Identification
from txqueue.web.messages import PageRequest, Reply, Role, Route, redirect, routes_by_method
from txqueue.web.page_services import Changes, Visit
from txqueue.web.settings import DashboardSettings
from txqueue.wire.http_server import QuietSite

LONGEST_BODY: Final = 4 << 20
"""The most bytes of a form: three for each of a payload of 1 MiB, and the rest."""

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


class RequestRefused(TxqueueError):
    """A request is refused.

    Args:
        status: The status code.
        what: What is wrong.
        remedy: What to do.
    """

    def __init__(self, status: HTTPStatus, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.status = status


def check_host(host: str | None, allowed: Collection[str] | None) -> None:
    """Check that a request is for this host: those that DNS rebinding makes are for another one.

    Args:
        host: The header ``Host``.
        allowed: The names besides loopback's; None to allow any.

    Raises:
        RequestRefused: When it is not.
    """
    names = _LOOPBACK | {name.lower() for name in allowed or ()}
    if allowed is not None and _name(host or "") not in names:
        raise RequestRefused(
            HTTPStatus.MISDIRECTED_REQUEST,
            "the dashboard does not answer to this host name",
            "name it with --web-host, or use localhost",
        )


def check_origin(headers: Mapping[str, str | None]) -> None:
    """Check that no other site sent a form (CSRF).

    Browsers of today tell by ``Sec-Fetch-Site``, older ones by ``Origin``. A request with neither
    does not come from a browser of today or yesterday, and is refused.

    Args:
        headers: ``sec-fetch-site``, ``origin`` and ``host``.

    Raises:
        RequestRefused: When another site did.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        is_own = site == "same-origin"
    else:
        is_own = origin is not None and origin.partition("://")[2] == (headers.get("host") or "")
    if not is_own:
        raise RequestRefused(
            HTTPStatus.FORBIDDEN,
            "the form was sent by another site",
            "act from the dashboard's own pages",
        )


def _name(host: str) -> str:
    """Return the name of a ``Host`` header, without the port."""
    host = host.strip().lower()
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


_STATUS = {
    ConfigurationError: HTTPStatus.BAD_REQUEST,
    JobNotFound: HTTPStatus.NOT_FOUND,
    DatabaseUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    Unanswered: HTTPStatus.SERVICE_UNAVAILABLE,
}
_MOST_FIELDS = 2000
# Seconds for which a browser is known, a year.
_DEVICE_KEPT = "31536000"


class _Request(server.Request):
    """A request whose body is short: of one that is too long, which is refused, none is kept."""

    def gotLength(self, length: int | None) -> None:
        """Read a body of a known length; close the connection otherwise."""
        if length is None:
            self.channel.loseConnection()
        self._is_kept = length is not None and length <= LONGEST_BODY
        super().gotLength(length if self._is_kept else 0)

    def handleContentChunk(self, data: bytes) -> None:
        """Read a part of the body."""
        if self._is_kept:
            super().handleContentChunk(data)


class PagesSite(QuietSite):
    """The HTTP server of the pages."""

    requestFactory = _Request


class Door(resource.Resource):
    """Answers all requests below one base path.

    Args:
        routes: The routes.
        visit: What answers requests; each gets its own.
        changes: Tell open pages to refresh: those of each database that they show.
        settings: The settings of the dashboard.
        path: The path of these pages below the base path of the dashboard.
    """

    isLeaf = True
    log = Logger()

    def __init__(
        self,
        routes: Sequence[Route],
        visit: Visit,
        changes: Sequence[Changes],
        settings: DashboardSettings,
        path: str = "",
    ) -> None:
        super().__init__()
        self._routes = routes
        self._visit = visit
        self._changes = changes
        self._settings = settings
        self._base = settings.base + path
        self._identification = Identification(settings.users, visit.logins, settings.proxy)

    def render(self, request: server.Request) -> int:
        """Start to answer a request."""
        Deferred.fromCoroutine(self._answer(request)).addErrback(
            lambda failure: self.log.failure("the dashboard failed", failure=failure)
        )
        return server.NOT_DONE_YET

    async def _answer(self, request: server.Request) -> None:
        closings: list[object] = []
        request.notifyFinish().addErrback(closings.append)
        method = (request.method or b"GET").decode("latin-1")
        headers = _headers(request)
        try:
            page_request = self._asked(request, headers)
        except RequestRefused as error:
            self._write(request, _plain(error, error.status), method)
            return
        if method == "GET" and page_request.path == "/events":
            self._stream(request, page_request.visitor)
            return
        reply = await self._reply(method, page_request, headers)
        if not closings:
            self._write(request, reply, method)

    def _asked(self, request: server.Request, headers: Mapping[str, str | None]) -> PageRequest:
        check_host(headers["host"], self._settings.answered_hosts)
        raw, _, raw_query = request.uri.decode("latin-1").partition("?")
        path = _below(self._base, raw)
        if path is None:
            what, remedy = "there is no such page", f"see {self._base}/"
            raise RequestRefused(HTTPStatus.NOT_FOUND, what, remedy)
        if int(headers.get("content-length") or 0) > LONGEST_BODY:
            what = f"the form has more than {LONGEST_BODY:,} bytes"
            raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, what, "send less at a time")
        body = b""
        if request.method == b"POST" and request.content is not None:
            body = request.content.read()
        secret = _cookie(request, messages.LOGIN)
        visitor = self._identification.visitor(request.transport, secret, headers)
        theme = _cookie(request, messages.THEME)
        try:
            query, form = _fields(raw_query), _fields(body.decode("utf-8"))
        except ValueError:
            what, remedy = "the form cannot be read", "send it again"
            raise RequestRefused(HTTPStatus.BAD_REQUEST, what, remedy) from None
        is_part = headers["x-part"] is not None
        return PageRequest(
            path=path,
            visitor=visitor,
            query=query,
            form=form,
            # The notice is for the page after the act, not for a refresh of the one before it.
            notice="" if is_part else self._visit.notices.take(_cookie(request, messages.NOTICE)),
            is_dark={"dark": True, "light": False}.get(theme or ""),
            secret=secret,
            is_part=is_part,
            sender=str(getattr(request.getClientAddress(), "host", "")),
            device=_cookie(request, messages.DEVICE),
        )

    async def _reply(
        self, method: str, page_request: PageRequest, headers: Mapping[str, str | None]
    ) -> Reply:
        try:
            if method == "POST":
                check_origin(headers)
            route, names = self._route(method, page_request.path)
            if page_request.visitor.role < route.role:
                return self._to_login(method, page_request)
            route.check(page_request.query, page_request.form)
            visit = evolve(self._visit, request=evolve(page_request, names=names))
            reply: Reply = await route.handler(visit)
        except RequestRefused as error:
            return self._refused(page_request, error, error.status)
        except TxqueueError as error:
            status = _STATUS.get(type(error), HTTPStatus.CONFLICT)
            return self._refused(page_request, error, status)
        except Exception:
            self.log.failure("a page of the dashboard failed")
            fault = TxqueueError("the dashboard has a fault", "see the log, and please report it")
            return self._refused(page_request, fault, HTTPStatus.INTERNAL_SERVER_ERROR)
        return reply

    def _route(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        routes = routes_by_method(self._routes, path)
        if not routes:
            what, remedy = "there is no such page", "choose one from the menu"
            raise RequestRefused(HTTPStatus.NOT_FOUND, what, remedy)
        match = routes.get("GET" if method == "HEAD" else method)
        if match is None:
            raise RequestRefused(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "this page does not take such a request",
                "open the dashboard's overview, and use the links and forms there",
            )
        return match

    def _to_login(self, method: str, page_request: PageRequest) -> Reply:
        """Lead a stranger to the login; refuse all else that the visitor's role does not allow."""
        if page_request.visitor.role > Role.STRANGER or self._visit.logins is None:
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                f"{page_request.visitor.name or 'a stranger'} may not do that",
                "use an operator's login or certificate, or the unix socket; see the page"
                " howto/dashboard of the documentation",
            )
        if method != "GET" or page_request.is_part:
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, "this needs a login", "log in")
        return redirect(_login_for(page_request))

    def _refused(self, page_request: PageRequest, error: TxqueueError, status: HTTPStatus) -> Reply:
        if page_request.visitor.role == Role.STRANGER:
            return _plain(error, status)
        visit = evolve(self._visit, request=page_request)
        return visit.show("error", status, error=error, phrase=status.phrase)

    def _write(self, request: server.Request, reply: Reply, method: str) -> None:
        request.setResponseCode(reply.status)
        caching = "public, max-age=31536000, immutable" if reply.is_fixed else "no-store"
        _set_headers(request, caching)
        if reply.location is not None:
            request.setHeader("Location", self._base + reply.location)
        else:
            request.setHeader("Content-Type", reply.kind)
        for name, value in reply.cookies.items():
            self._set_cookie(request, name, value)
        request.setHeader("Content-Length", str(len(reply.body)))
        if method != "HEAD":
            request.write(reply.body)
        request.finish()

    def _set_cookie(self, request: server.Request, name: str, value: str) -> None:
        request.addCookie(
            name,
            value,
            path=self._settings.base or "/",
            max_age=_max_age(name, value),
            secure=self._settings.endpoint.credentials is not None,
            httpOnly=True,
            sameSite="lax",
        )

    def _stream(self, request: server.Request, visitor: messages.Visitor) -> None:
        """Keep a connection open, to tell the page to refresh."""
        if visitor.role < Role.VIEWER or any(feed.is_full for feed in self._changes):
            self._write(request, Reply(HTTPStatus.NO_CONTENT), "GET")
            return
        _set_headers(request, "no-store")
        request.setHeader("Content-Type", "text/event-stream")

        def refresh() -> None:
            request.write(b"event: changed\ndata: 1\n\n")

        def end(_: object) -> None:
            for feed in self._changes:
                feed.remove(refresh)

        for feed in self._changes:
            feed.add(refresh)
        request.notifyFinish().addBoth(end)
        refresh()


def _set_headers(request: server.Request, caching: str) -> None:
    for name, value in {**SECURITY_HEADERS, "Cache-Control": caching}.items():
        request.setHeader(name, value)


def _max_age(name: str, value: str) -> str | None:
    """Return for how many seconds a browser keeps a cookie; None for until it ends."""
    if not value:
        return "0"
    return _DEVICE_KEPT if name == messages.DEVICE else None


def _below(base: str, path: str) -> str | None:
    """Return a path below the base path, decoded; None for one that is not, or is not plain."""
    if path != base and not path.startswith(f"{base}/"):
        return None
    try:
        page_path = unquote(path[len(base) :], errors="strict") or "/"
    except UnicodeDecodeError:
        return None
    is_plain = page_path.isprintable() and "\\" not in page_path and "//" not in page_path
    return page_path if is_plain and ".." not in page_path.split("/") else None


def _fields(text: str) -> Mapping[str, list[str]]:
    """Return the fields of an address or a form.

    Raises:
        ValueError: When there are too many, or one has a null character, which no database stores.
    """
    if "%00" in text or "\0" in text:
        raise ValueError("a field has a null character")
    return parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)


def _headers(request: server.Request) -> dict[str, str | None]:
    headers = {
        name.decode("latin-1").lower(): values[-1].decode("latin-1")
        for name, values in request.requestHeaders.getAllRawHeaders()
    }
    return {"host": None, "origin": None, "sec-fetch-site": None, "x-part": None, **headers}


def _cookie(request: server.Request, name: str) -> str | None:
    value: Any = request.getCookie(name.encode())
    return None if value is None else value.decode("latin-1")


def _login_for(page_request: PageRequest) -> str:
    """Return the address of the login, after which the page that was asked for is shown."""
    back = page_request.path + page_request.address().rstrip("?")
    return "/login" if back == "/" else f"/login?{urlencode({'back': back})}"


def _plain(error: TxqueueError, status: HTTPStatus) -> Reply:
    """Return a refusal as text, which shows nothing of the installation."""
    return Reply(status, f"{error}\n".encode(), "text/plain; charset=utf-8")


class MountedDoors(resource.Resource):
    """Passes each request to the door that its path names.

    Args:
        index: Answers for all other paths.
        doors: The doors by their base paths, without slashes at their ends.
    """

    isLeaf = True

    def __init__(self, index: Door, doors: Mapping[str, Door]) -> None:
        super().__init__()
        self._index = index
        self._doors = {base.encode(): door for base, door in doors.items()}

    def render(self, request: server.Request) -> int:
        """Start to answer a request."""
        path = request.uri.partition(b"?")[0]
        for base, door in self._doors.items():
            if path == base or path.startswith(base + b"/"):
                return door.render(request)
        return self._index.render(request)
