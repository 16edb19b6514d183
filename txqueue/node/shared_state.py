"""The state that the services of a node share: objects that call no service."""

from __future__ import annotations

from functools import cached_property

from txqueue.model.work_item import type_version
from txqueue.node.arrival.notifications import DatabaseNotices
from txqueue.node.peers.peer import PeerTable
from txqueue.node.settings import NodeSettings, served_types
from txqueue.node.state.arrivals import Deduplicator, Inbox, Meters
from txqueue.node.state.collaborators import IMasterReactor
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Wakeups
from txqueue.node.workers.starter import WorkerVersions
from txqueue.node.workers.suspects import Suspects
from txqueue.policy.placement.claim_plan import IdlePace
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import RefusedStatements
from txqueue.store.driver.reconnecting import ReconnectBackoff
from txqueue.store.driver.session_bounds import of_a_master
from txqueue.store.schedules import MOST_CHECKS

# One connection each for claims, completions, long outcomes and other statements, opened when it is
# needed; a fifth listens, and claims ordinary jobs.
CONNECTIONS = 4


class SharedState:
    """The state objects of a node, each made on first use.

    Args:
        reactor: The master's reactor.
        settings: The node's settings.
    """

    def __init__(self, reactor: IMasterReactor, settings: NodeSettings) -> None:
        self.reactor = reactor
        self.settings = settings
        self.types = served_types()
        self.work_types = [cls.work_type for cls in self.types]

    @cached_property
    def lease(self) -> Lease:
        """The node's lease, written by the lease keeper."""
        return Lease(self.settings.lease)

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """The state of the node: whether it takes jobs, drains or ends."""
        return Lifecycle(self.reactor)

    @cached_property
    def wakeups(self) -> Wakeups:
        """The alarms by which services wake each other."""
        return Wakeups(self.reactor, IdlePace(self.settings.lease, self.settings.poll))

    @cached_property
    def deduplicator(self) -> Deduplicator:
        """Remembers which assignments have arrived."""
        return Deduplicator()

    @cached_property
    def inbox(self) -> Inbox:
        """The assignments that messages have named and that are still to be read."""
        return Inbox(self.wakeups)

    @cached_property
    def notices(self) -> DatabaseNotices:
        """What notifications have said."""
        return DatabaseNotices(self.wakeups)

    @cached_property
    def meters(self) -> Meters:
        """What the node has counted and timed since its start."""
        return Meters()

    @cached_property
    def versions(self) -> WorkerVersions:
        """Which versions of the application and its work types the workers run."""
        return WorkerVersions(self.work_types, [type_version(cls) for cls in self.types])

    @cached_property
    def suspects(self) -> Suspects:
        """The suspects that wait for a process of their own."""
        return Suspects(self.reactor)

    @cached_property
    def peer_table(self) -> PeerTable:
        """The table of peers."""
        return PeerTable(self.reactor)

    @cached_property
    def backoff(self) -> ReconnectBackoff:
        """The backoff of reconnects; its longest delay is shorter than the lease, or other nodes
        would rescue this node's jobs first.
        """
        return ReconnectBackoff(longest=self.settings.lease / 5)

    @cached_property
    def refused(self) -> RefusedStatements:
        """Which of the node's statements the database refuses."""
        return RefusedStatements()

    @cached_property
    def pool(self) -> ConnectionPool:
        """The connections for statements."""
        return self._pool_of(CONNECTIONS)

    @cached_property
    def condition_pool(self) -> ConnectionPool:
        """The connections on which conditions of schedules are checked: none before the first."""
        return self._pool_of(MOST_CHECKS)

    def _pool_of(self, size: int) -> ConnectionPool:
        return ConnectionPool(
            self.reactor,
            self.settings.dsn,
            size,
            f"txqueue {self.settings.name}",
            patience=self.settings.patience,
            backoff=self.backoff,
            any_moment=True,
            session=of_a_master(self.settings.patience),
        )
