"""The dashboard's pages: their paths, the least role of their visitors, and the menu."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from txqueue.web.filters import FILTERS
from txqueue.web.messages import Role, Route, page
from txqueue.web.page_services import marked
from txqueue.web.pages import session
from txqueue.web.pages.details import node, queue, work_type
from txqueue.web.pages.enqueue_form import enqueue_form
from txqueue.web.pages.job_details import job, payload_form, value
from txqueue.web.pages.job_list import confirmation, jobs, search
from txqueue.web.pages.lists import LISTS
from txqueue.web.pages.overview import database_list, overview
from txqueue.web.pages.schedule_editor import edit_form
from txqueue.web.rendering import Menu

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
    Route("GET", "/static/{name}", Role.STRANGER, session.static_file, ("v",)),
    Route("GET", "/login", Role.STRANGER, session.login_page, ("key", "back")),
    Route("POST", "/login", Role.STRANGER, session.log_in, ("name", "password", "back")),
    Route("POST", "/logout", Role.STRANGER, session.log_out),
    Route("POST", "/theme", Role.STRANGER, session.set_theme, ("theme", "back")),
)
MENU: Final = Menu({route.pattern: route.title for route in _PAGES if route.title})
"""The pages to choose from."""


def routes() -> list[Route]:
    """Return the routes that change nothing in the database."""
    return [*(evolve(route, handler=marked(route.handler)) for route in _PAGES), *_OF_VISITORS]


def index_routes() -> list[Route]:
    """Return the routes of the list of databases."""
    return [page("/", database_list), *_OF_VISITORS]
