"""The dashboard's pages: their paths, the least role of their visitors, and the menu; login and
logout, the theme, and the files that pages load.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from attrs import evolve

from txqueue.web.filters import FILTERS
from txqueue.web.logins import TryRefused
from txqueue.web.messages import DEVICE, LOGIN, THEME, Reply, Role, Route, page, redirect
from txqueue.web.page_services import Visit, marked
from txqueue.web.pages.details import node, queue, work_type
from txqueue.web.pages.enqueue_form import enqueue_form
from txqueue.web.pages.job_details import job, payload_form, value
from txqueue.web.pages.job_list import confirmation, jobs, search
from txqueue.web.pages.lists import LISTS
from txqueue.web.pages.overview import database_list, overview
from txqueue.web.pages.schedule_editor import edit_form
from txqueue.web.rendering import Menu, static_files


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
        return visit.show("login", error.status, trouble=error.text)
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
    file = static_files().get(visit.request.names["name"])
    if file is None:
        return Reply(HTTPStatus.NOT_FOUND, b"there is no such file\n", "text/plain")
    return Reply(body=file.body, kind=file.kind, is_fixed=True)


_PAGES: Final = (
    page("/", overview, "Overview", "span", "sort"),
    page("/jobs", jobs, "Jobs", "id", "after", "sort", *FILTERS),
    *LISTS,
    page("/search", search, "", "q"),
    page("/jobs/confirm", confirmation, "", "act", *FILTERS),
    page("/jobs/{id}", job),
    page("/jobs/{id}/payload", value),
    page("/jobs/{id}/result", value),
    Route("GET", "/jobs/{id}/copy", Role.OPERATOR, payload_form),
    Route("GET", "/jobs/{id}/edit", Role.OPERATOR, payload_form),
    page("/queues/queue", queue, "", "name", "span"),
    page("/types/type", work_type, "", "name", "span"),
    page("/nodes/node", node, "", "name"),
    Route("GET", "/types/enqueue", Role.OPERATOR, enqueue_form, ("name",)),
    Route("GET", "/schedules/edit", Role.OPERATOR, edit_form, ("name",)),
)
_OF_VISITORS: Final = (
    Route("GET", "/static/{name}", Role.STRANGER, static_file, ("v",)),
    Route("GET", "/login", Role.STRANGER, login_page, ("key", "back")),
    Route("POST", "/login", Role.STRANGER, log_in, ("name", "password", "back")),
    Route("POST", "/logout", Role.STRANGER, log_out),
    Route("POST", "/theme", Role.STRANGER, set_theme, ("theme", "back")),
)
MENU: Final = Menu({route.pattern: route.title for route in _PAGES if route.title})
"""The pages to choose from."""


def routes() -> list[Route]:
    """Return the routes that change nothing in the database."""
    return [*(evolve(route, handler=marked(route.handler)) for route in _PAGES), *_OF_VISITORS]


def index_routes() -> list[Route]:
    """Return the routes of the list of databases."""
    return [page("/", database_list), *_OF_VISITORS]
