"""The dashboard as a service: its connections to the database and its port."""

from __future__ import annotations

from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.operations import Operations
from txqueue.web.acts import acting_routes
from txqueue.web.changes import Changes
from txqueue.web.identification import Identification
from txqueue.web.logins import Logins, Notices
from txqueue.web.page_services import PageServices
from txqueue.web.pages import lists, session
from txqueue.web.pages.job_details import job
from txqueue.web.pages.job_list import confirmation, jobs
from txqueue.web.pages.overview import overview
from txqueue.web.pages.queue_details import queue
from txqueue.web.pages.schedule_editor import edit_form
from txqueue.web.pages.type_details import work_type
from txqueue.web.reads import Reads
from txqueue.web.rendering import Renderer
from txqueue.web.routing import Route, Router
from txqueue.web.settings import DashboardSettings
from txqueue.web.site import Door, QuietSite, Rules
from txqueue.web.static_files import read_static
from txqueue.web.visitors import Role

__all__ = ["Dashboard", "routes"]

# Connections: two for reads, one for acts.
_CONNECTIONS: Final = 3
# Seconds after which a read or an act is given up.
_PATIENCE: Final = 2


class Dashboard(Service):
    """Serves the dashboard.

    Args:
        reactor: Listens, and times the reads.
        settings: The settings.
    """

    log = Logger()

    def __init__(self, reactor: Any, settings: DashboardSettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._pool = ConnectionPool(
            reactor,
            settings.dsn,
            _CONNECTIONS,
            "txqueue dashboard",
            patience=_PATIENCE + 3.0,
            any_moment=True,
        )
        self._listening: Deferred[Any] = succeed(None)

    def startService(self) -> None:
        """Listen."""
        super().startService()
        self._listening = self._settings.endpoint.listen(self._reactor, self.site())
        self._listening.addCallbacks(self._listens, self._cannot_listen)

    async def _stop(self) -> None:
        port = await self._listening
        if port is not None:
            await port.stopListening()
        self._pool.close()

    def stopService(self) -> Deferred[None]:
        """Stop listening, and close the connections."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    def site(self) -> QuietSite:
        """Return the HTTP server."""
        settings = self._settings
        logins = None
        if settings.users is not None or settings.key is not None:
            logins = Logins(self._reactor, settings.users or {}, settings.key)
        operations = Operations(self._pool, settings.schema, patience=_PATIENCE, at_once=2)
        services = PageServices(
            Reads(self._reactor, operations, settings.schema),
            operations,
            Renderer(settings.base, settings.title, read_static()),
            Notices(),
            logins,
        )
        rules = Rules(
            settings.base,
            self._hosts(),
            Identification(settings.users, logins, settings.proxy),
            settings.endpoint.credentials is not None,
        )
        router = Router([*routes(), *acting_routes()])
        changes = Changes(self._reactor, operations, settings.schema)
        return QuietSite(Door(router, services, changes, rules), reactor=self._reactor)

    def _hosts(self) -> frozenset[str] | None:
        endpoint = self._settings.endpoint
        if endpoint.path is not None:
            # Only this account can connect, and a proxy passes on the host that browsers name.
            return None
        return self._settings.hosts | {endpoint.address}

    def _listens(self, port: Any) -> Any:
        self.log.info("the dashboard listens at {endpoint}", endpoint=self._settings.endpoint)
        return port

    def _cannot_listen(self, failure: Any) -> None:
        self.log.critical(
            "the dashboard cannot listen at {endpoint}: {error}",
            endpoint=self._settings.endpoint,
            error=failure.value,
        )


def routes() -> list[Route]:
    """Return the routes that change nothing in the database."""
    pages = {
        "/": overview,
        "/jobs": jobs,
        "/jobs/confirm": confirmation,
        "/jobs/{id}": job,
        "/queues": lists.queues,
        "/queues/queue": queue,
        "/types": lists.work_types,
        "/types/type": work_type,
        "/failures": lists.failures,
        "/schedules": lists.schedules,
        "/worksets": lists.worksets,
        "/tenants": lists.tenants,
        "/nodes": lists.nodes,
        "/actions": lists.actions,
    }
    return [
        *(Route("GET", path, Role.VIEWER, handler) for path, handler in pages.items()),
        Route("GET", "/schedules/edit", Role.OPERATOR, edit_form),
        Route("GET", "/static/{name}", Role.STRANGER, session.static_file),
        Route("GET", "/login", Role.STRANGER, session.login_page),
        Route("POST", "/login", Role.STRANGER, session.log_in),
        Route("POST", "/logout", Role.STRANGER, session.log_out),
        Route("POST", "/theme", Role.STRANGER, session.set_theme),
    ]
