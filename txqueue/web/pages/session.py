"""Login and logout, the theme, and the files that pages load."""

from __future__ import annotations

from http import HTTPStatus

from txqueue.web.logins import TryRefused
from txqueue.web.messages import DEVICE, LOGIN, THEME, Reply, redirect
from txqueue.web.page_services import Visit

_BUSY = HTTPStatus.SERVICE_UNAVAILABLE


async def login_page(visit: Visit) -> Reply:
    """Ask for name and password; a key in the address logs in at once."""
    if visit.logins is None:
        return redirect("/")
    key = visit.request.asked("key")
    secret = None if key is None else visit.logins.log_in_by_key(key)
    if secret is not None:
        return redirect(visit.request.way_back(), {LOGIN: secret})
    return visit.show("login", trouble="" if key is None else "The key is wrong.")


async def log_in(visit: Visit) -> Reply:
    """Log a user in, if the password is right."""
    logins, name = visit.logins, visit.request.sent("name") or ""
    if logins is None:
        return redirect("/")
    password = (visit.request.form.get("password") or [""])[0]
    try:
        login = await logins.log_in(name, password, visit.request.sender, visit.request.device)
    except TryRefused as error:
        status = _BUSY if error.is_busy else HTTPStatus.TOO_MANY_REQUESTS
        return visit.show("login", status, trouble=error.text)
    if login is not None:
        cookies = {LOGIN: login.secret, DEVICE: login.device}
        return redirect(visit.request.way_back(), cookies)
    trouble = "The name or the password is wrong."
    return visit.show("login", HTTPStatus.UNAUTHORIZED, trouble=trouble)


async def log_out(visit: Visit) -> Reply:
    """End the visitor's login."""
    if visit.logins is None:
        return redirect("/")
    visit.logins.end(visit.request.secret or "")
    return redirect("/login", {LOGIN: ""})


async def set_theme(visit: Visit) -> Reply:
    """Choose dark or light; anything else leaves it to the browser."""
    theme = visit.request.sent("theme")
    cookie = theme if theme in ("dark", "light") else ""
    return redirect(visit.request.way_back(), {THEME: cookie})


async def static_file(visit: Visit) -> Reply:
    """Send a file that pages load."""
    file = visit.renderer.static.get(visit.request.names["name"])
    if file is None:
        return Reply(HTTPStatus.NOT_FOUND, b"there is no such file\n", "text/plain")
    return Reply(body=file.body, kind=file.kind, is_fixed=True)
