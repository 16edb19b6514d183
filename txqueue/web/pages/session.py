"""Login and logout, the theme, and the files that pages load."""

from __future__ import annotations

from http import HTTPStatus

from txqueue.web.logins import TryRefused
from txqueue.web.messages import DEVICE, LOGIN, THEME, PageRequest, Reply, redirect
from txqueue.web.page_services import VisitorServices

_BUSY = HTTPStatus.SERVICE_UNAVAILABLE


async def login_page(services: VisitorServices, request: PageRequest) -> Reply:
    """Ask for name and password; a key in the address logs in at once."""
    if services.logins is None:
        return redirect("/")
    key = request.asked("key")
    secret = None if key is None else services.logins.log_in_by_key(key)
    if secret is not None:
        return redirect(request.way_back(), {LOGIN: secret})
    return services.show("login", request, trouble="" if key is None else "The key is wrong.")


async def log_in(services: VisitorServices, request: PageRequest) -> Reply:
    """Log a user in, if the password is right."""
    logins, name = services.logins, request.sent("name") or ""
    if logins is None:
        return redirect("/")
    password = (request.form.get("password") or [""])[0]
    try:
        login = await logins.log_in(name, password, request.sender, request.device)
    except TryRefused as error:
        status = _BUSY if error.is_busy else HTTPStatus.TOO_MANY_REQUESTS
        return services.show("login", request, status, trouble=error.text)
    if login is not None:
        cookies = {LOGIN: login.secret, DEVICE: login.device}
        return redirect(request.way_back(), cookies)
    trouble = "The name or the password is wrong."
    return services.show("login", request, HTTPStatus.UNAUTHORIZED, trouble=trouble)


async def log_out(services: VisitorServices, request: PageRequest) -> Reply:
    """End the visitor's login."""
    if services.logins is None:
        return redirect("/")
    services.logins.end(request.secret or "")
    return redirect("/login", {LOGIN: ""})


async def set_theme(services: VisitorServices, request: PageRequest) -> Reply:  # noqa: ARG001 - a handler
    """Choose dark or light; anything else leaves it to the browser."""
    theme = request.sent("theme")
    cookie = theme if theme in ("dark", "light") else ""
    return redirect(request.way_back(), {THEME: cookie})


async def static_file(services: VisitorServices, request: PageRequest) -> Reply:
    """Send a file that pages load."""
    file = services.renderer.static.get(request.names["name"])
    if file is None:
        return Reply(HTTPStatus.NOT_FOUND, b"there is no such file\n", "text/plain")
    return Reply(body=file.body, kind=file.kind, is_fixed=True)
