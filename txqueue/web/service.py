"""The dashboard as a service: its connections to the database and its port."""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve, frozen
from twisted.internet.defer import Deferred

from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.inquiries.operations import ArchiveProcess, Operations
from txqueue.system.descriptors import has_spare_descriptors
from txqueue.web.acts import acting_routes
from txqueue.web.logins import Logins, Notices
from txqueue.web.page_services import Changes, IndexVisit, PageVisit, Reads
from txqueue.web.pages.routes import MENU, index_routes, routes
from txqueue.web.rendering import DatabaseMenu, Renderer, compile_templates
from txqueue.web.settings import DashboardSettings, ShownDatabase, database_path, database_place
from txqueue.web.site import Door, MountedDoors, PagesSite
from txqueue.wire.http_server import BoundedServer, HttpService
from txqueue.wire.pipe import DescriptorGuard

# Connections: two for reads, one for acts.
_CONNECTIONS: Final = 3
# Seconds after which a read or an act is given up.
_PATIENCE: Final = 2
# The most connections, those of open pages included, and the seconds after which a silent one is
# closed.
_MOST_CONNECTED: Final = 300
_IDLE: Final = 60


@frozen
class DatabaseLink:
    """The connections to one database, and what its pages read and watch.

    Attributes:
        database: The database.
        pool: Its connections.
        reads: Reads what the pages show.
        changes: Tells open pages to refresh.
    """

    database: ShownDatabase
    pool: ConnectionPool
    reads: Reads
    changes: Changes


class Dashboard(HttpService):
    """Serves the dashboard.

    Args:
        reactor: Listens, and times the reads.
        settings: The settings.
    """

    def __init__(self, reactor: Any, settings: DashboardSettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._logins = _logins(reactor, settings)
        self._links = [_linked(reactor, database) for database in settings.databases]
        guard = DescriptorGuard(has_spare_descriptors)
        server = BoundedServer(self.site(), _MOST_CONNECTED, guard)
        super().__init__(reactor, settings.endpoint, server, "the dashboard")

    def startService(self) -> None:
        """Listen; meanwhile a thread prepares the pages, so that no visitor waits for that."""
        super().startService()
        self._reactor.callInThread(compile_templates)

    def stopService(self) -> Deferred[None]:
        """Stop listening, and close the connections to the databases."""
        return super().stopService().addCallback(lambda _: self._close())

    def _close(self) -> None:
        for link in self._links:
            link.pool.close()
        if self._logins is not None:
            self._logins.close()

    def site(self) -> PagesSite:
        """Return the HTTP server."""
        return PagesSite(self._resource(), reactor=self._reactor, timeout=_IDLE)

    def _resource(self) -> Door | MountedDoors:
        """Return what answers: the pages of one database, or of each below a list of all."""
        paths = {link.database.name: database_path(link.database.name) for link in self._links}
        if list(paths) == [""]:
            return self._door(self._links[0], None)
        menu, root = DatabaseMenu(paths), self._settings.base
        doors = {
            root + paths[link.database.name]: self._door(
                link, evolve(menu, chosen=link.database.name)
            )
            for link in self._links
        }
        return MountedDoors(self._index(menu), doors)

    def _door(self, link: DatabaseLink, menu: DatabaseMenu | None) -> Door:
        """Return the door to the pages of a database."""
        visit = PageVisit(
            renderer=self._renderer(menu),
            notices=Notices(),
            logins=self._logins,
            reads=link.reads,
            place=database_place(link.database),
            archive=ArchiveProcess(self._reactor),
        )
        path = database_path(link.database.name)
        all_routes = [*routes(), *acting_routes()]
        return Door(all_routes, visit, [link.changes], self._settings, path)

    def _index(self, menu: DatabaseMenu) -> Door:
        """Return the door to the list of databases."""
        reads = {link.database.name: link.reads for link in self._links}
        visit = IndexVisit(
            renderer=self._renderer(menu), notices=Notices(), logins=self._logins, databases=reads
        )
        changes = [link.changes for link in self._links]
        return Door(index_routes(), visit, changes, self._settings)

    def _renderer(self, databases: DatabaseMenu | None) -> Renderer:
        settings = self._settings
        return Renderer(settings.base, settings.title, MENU, databases)


def _linked(reactor: Any, database: ShownDatabase) -> DatabaseLink:
    pool = ConnectionPool(
        reactor,
        database.dsn,
        _CONNECTIONS,
        "txqueue dashboard",
        patience=_PATIENCE + 3.0,
        any_moment=True,
    )
    operations = Operations(pool, database.schema, patience=_PATIENCE, at_once=2)
    reads = Reads(reactor, operations, database.schema)
    changes = Changes(reactor, operations, database.schema)
    return DatabaseLink(database, pool, reads, changes)


def _logins(reactor: Any, settings: DashboardSettings) -> Logins | None:
    if settings.users is None and settings.key is None:
        return None
    return Logins(reactor, settings.users or {}, settings.key)
