"""A node's services, each made with those that it calls."""

from __future__ import annotations

from functools import cached_property

from txqueue.node.admin_endpoint import AdminEndpoint
from txqueue.node.admin_handlers import AdminHandlers
from txqueue.node.archiving import Archiving
from txqueue.node.claimer import Claimer
from txqueue.node.collaborators import BeatListener
from txqueue.node.completions import Completions
from txqueue.node.credits import Credits
from txqueue.node.deduplication import Deduplicator
from txqueue.node.description import Description
from txqueue.node.handover import Handover
from txqueue.node.heartbeats import BEATS_A_LEASE, Heartbeats
from txqueue.node.inbox import Inbox
from txqueue.node.lag import LagMeter
from txqueue.node.lease import Lease
from txqueue.node.lease_keeper import LeaseKeeper
from txqueue.node.lease_proxy import LeaseProxy
from txqueue.node.lifecycle import Lifecycle
from txqueue.node.maintenance import Maintenance
from txqueue.node.notifications import Notifications
from txqueue.node.orphans import OrphanFinder
from txqueue.node.own_report import OwnReport
from txqueue.node.peer_table import PeerTable
from txqueue.node.peers import Peers
from txqueue.node.reactor import IMasterReactor
from txqueue.node.reconciliation import Reconciliation
from txqueue.node.scheduler import Scheduler
from txqueue.node.settings import NodeSettings, policy_row, row_of, served_types, worker_settings
from txqueue.node.wakeups import Wakeups
from txqueue.node.watchdog import Watchdog
from txqueue.node.worker_pool import WorkerPool
from txqueue.node.workers import Workers
from txqueue.node.yielding import Yielding
from txqueue.store.backoff import Backoff
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.functions import StoredFunctions
from txqueue.store.listener import Listener
from txqueue.store.schedules import Schedules
from txqueue.store.session_bounds import of_a_master

__all__ = ["Services"]

# One each for claims, for completions and for the rest; the listener has a fourth.
CONNECTIONS = 3
# A statement without an answer for so long, or for a lease, counts as lost; seconds.
PATIENCE = 10.0


class Services:
    """Each is made when it is first asked for, so no order of construction has to be kept.

    They share state that knows no service (lease, lifecycle, wakeups, inbox, peer table), so none
    needs one that needs it.

    Args:
        reactor: Times, watches and spawns.
        settings: How the node runs.
    """

    def __init__(self, reactor: IMasterReactor, settings: NodeSettings) -> None:
        self.reactor = reactor
        self.settings = settings
        self.types = served_types()
        self.work_types = [cls.work_type for cls in self.types]

    # The state that services share.

    @cached_property
    def lease(self) -> Lease:
        """Written by the lease keeper, read by all."""
        return Lease(self.settings.lease)

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Whether the node takes jobs, drains or ends."""
        return Lifecycle(self.reactor)

    @cached_property
    def wakeups(self) -> Wakeups:
        """The alarms by which services wake each other."""
        return Wakeups(self.reactor)

    @cached_property
    def arrivals(self) -> Deduplicator:
        """The assignments that have arrived."""
        return Deduplicator()

    @cached_property
    def inbox(self) -> Inbox:
        """The assignments that messages have named and that are to be read."""
        return Inbox(self.wakeups)

    @cached_property
    def peer_table(self) -> PeerTable:
        """The peers that are known."""
        return PeerTable(self.reactor)

    # The database.

    @cached_property
    def backoff(self) -> Backoff:
        """Shorter than the lease, or other nodes rescue this node's jobs first."""
        return Backoff(longest=self.settings.lease / 5)

    @cached_property
    def pool(self) -> ConnectionPool:
        """The connections for statements."""
        patience = max(self.settings.lease, PATIENCE)
        return ConnectionPool(
            self.reactor,
            self.settings.dsn,
            CONNECTIONS,
            f"txqueue {self.settings.name}",
            patience=patience,
            backoff=self.backoff,
            any_moment=True,
            session=of_a_master(patience),
        )

    @cached_property
    def engine(self) -> StoredFunctions:
        """The stored functions."""
        return StoredFunctions(self.pool, self.settings.schema)

    # The lease.

    @cached_property
    def heartbeats(self) -> Heartbeats:
        """Register the node and renew its lease."""
        listeners: list[BeatListener | None] = [
            self.workers,
            self.peers,
            self.lease_proxy,
            self.credits,
            self.handover,
        ]
        return Heartbeats(
            self.reactor,
            self.engine,
            node=row_of(self.settings),
            work_types=[policy_row(cls) for cls in self.types],
            host=self.settings.host,
            lease=self.lease,
            keeper=self.lease_keeper,
            lifecycle=self.lifecycle,
            vitals=self.description,
            listeners=[listener for listener in listeners if listener is not None],
            processes=self.worker_pool,
            wakeups=self.wakeups,
        )

    @cached_property
    def lease_keeper(self) -> LeaseKeeper:
        """Writes the lease, and sees to what follows."""
        return LeaseKeeper(
            self.reactor,
            self.lease,
            workers=self.workers,
            credits=self.credits,
            wakeups=self.wakeups,
        )

    # The workers and what they report.

    @cached_property
    def completions(self) -> Completions:
        """Write down how jobs end."""
        return Completions(self.reactor, self.engine, self.lease, self.wakeups)

    @cached_property
    def workers(self) -> Workers:
        """Perform jobs."""
        return Workers(
            self.reactor,
            count=self.settings.workers,
            capacity=self.settings.capacity,
            reports=self.completions,
        )

    @cached_property
    def worker_pool(self) -> WorkerPool:
        """Keeps the worker processes."""
        return WorkerPool(
            self.reactor,
            self.workers,
            settings=worker_settings(self.settings),
            listeners=[self.claimer, self.handover, self.credits],
        )

    @cached_property
    def watchdog(self) -> Watchdog:
        """Sees to workers that do not answer."""
        return Watchdog(
            self.reactor,
            self.engine,
            lease=self.lease,
            workers=self.workers,
            records=self.completions,
            kill_after=self.settings.kill_stuck,
        )

    # The ways in which jobs come.

    @cached_property
    def claimer(self) -> Claimer:
        """Claims what is ready."""
        return Claimer(
            self.reactor,
            self.engine,
            lease=self.lease,
            queues=self.settings.queues,
            work_types=self.work_types,
            workers=self.workers,
            yielding=Yielding(self.reactor, self.peer_table, self.settings.queues, self.work_types),
            lanes=self.maintenance,
            listeners=[self.credits, self.handover],
            wakeups=self.wakeups,
        )

    @cached_property
    def credits(self) -> Credits:
        """Gives clients credit, and performs what they deliver."""
        return Credits(
            self.reactor,
            self.engine,
            name=self.settings.name,
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=self.workers,
            peers=self.peer_table,
            arrivals=self.arrivals,
            inbox=self.inbox,
            wakeups=self.wakeups,
        )

    @cached_property
    def orphans(self) -> OrphanFinder:
        """Adopts what was handed to the node and whose message is lost."""
        return OrphanFinder(
            self.reactor,
            self.engine,
            lease=self.lease,
            inbox=self.inbox,
            workers=self.workers,
            arrivals=self.arrivals,
            clients=self.credits,
            peers=self.peer_table,
            wakeups=self.wakeups,
        )

    @cached_property
    def reconciliation(self) -> Reconciliation:
        """Gives back what is assigned to the node and that it does not hold."""
        return Reconciliation(
            self.reactor,
            self.engine,
            lease=self.lease,
            every=self.settings.lease / BEATS_A_LEASE,
            workers=self.workers,
            records=self.completions,
            claims=self.claimer,
            arrivals=self.arrivals,
            wakeups=self.wakeups,
        )

    @cached_property
    def scheduler(self) -> Scheduler:
        """Enqueues the jobs of schedules."""
        return Scheduler(
            self.reactor,
            Schedules(self.pool, self.settings.schema),
            classes=self.types,
            lease=self.lease,
            wakeups=self.wakeups,
        )

    @cached_property
    def notifications(self) -> Notifications:
        """Listens for NOTIFY."""
        listener = Listener(
            self.reactor,
            self.settings.dsn,
            self.settings.schema,
            self.wakeups.notified,
            self.backoff,
        )
        return Notifications(self.reactor, listener, self.wakeups)

    # The other nodes.

    @cached_property
    def lag(self) -> LagMeter:
        """Measures the reactor, and what waits."""
        return LagMeter(self.reactor, self.workers)

    @cached_property
    def own_report(self) -> OwnReport:
        """What the node says of itself to peers."""
        return OwnReport(self.lease, self.lifecycle, self.workers, self.lag)

    @cached_property
    def handover(self) -> Handover:
        """Moves jobs to peers, and takes theirs."""
        return Handover(
            self.reactor,
            self.engine,
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=self.workers,
            peers=self.peer_table,
            own=self.own_report,
            arrivals=self.arrivals,
            inbox=self.inbox,
            records=self.completions,
        )

    @cached_property
    def peers(self) -> Peers | None:
        """Keeps connections to peers, if the node listens for any."""
        if self.settings.listen is None:
            return None
        return Peers(
            self.reactor,
            name=self.settings.name,
            endpoint=self.settings.listen,
            table=self.peer_table,
            lease=self.lease,
            keeper=self.lease_keeper,
            lifecycle=self.lifecycle,
            own=self.own_report,
            exchange=self.handover,
            wakeups=self.wakeups,
        )

    @cached_property
    def lease_proxy(self) -> LeaseProxy:
        """Keeps leases of peers that answer and do not reach the database."""
        return LeaseProxy(self.reactor, self.engine, self.lease, self.peer_table)

    # Upkeep and operators.

    @cached_property
    def maintenance(self) -> Maintenance:
        """Rotates lanes, and sees to history."""
        return Maintenance(self.reactor, self.engine, self.workers, self.completions)

    @cached_property
    def archiving(self) -> Archiving:
        """Has old days archived."""
        return Archiving(self.reactor, self.engine, self.settings.dsn, self.settings.schema)

    @cached_property
    def description(self) -> Description:
        """What the node says of itself to operators."""
        return Description(
            self.settings,
            self.lease,
            self.lifecycle,
            self.workers,
            self.completions,
            self.reconciliation,
            self.credits,
            self.orphans,
            self.peer_table,
            self.lag,
        )

    @cached_property
    def admin(self) -> AdminEndpoint | None:
        """Answers operators, and lets applications join; if the node has an endpoint for them."""
        if self.settings.admin is None:
            return None
        return AdminEndpoint(
            self.reactor,
            self.settings.admin,
            description=self.description,
            lifecycle=self.lifecycle,
            operators=AdminHandlers(
                self.pool,
                self.settings.schema,
                description=self.description,
                lease=self.lease,
                workers=self.workers,
            ),
            guests=self.credits,
        )
