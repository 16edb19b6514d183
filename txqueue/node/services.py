"""The wiring of a node: makes each service after those that it calls."""

from __future__ import annotations

import sys

from txqueue.model.work_item import type_version
from txqueue.node.arrival.assigned import Credits, Inbox, Intake, OpenCredit
from txqueue.node.arrival.claimer import Claimer
from txqueue.node.arrival.notifications import DatabaseNotices, Notifications
from txqueue.node.arrival.scheduler import ConditionChecks, Scheduler
from txqueue.node.description import Description
from txqueue.node.leasing.heartbeats import Heartbeats, LeaseKeeper, LeaseProxy
from txqueue.node.leasing.reconciliation import Reconciliation
from txqueue.node.operators import AdminEndpoint, AdminHandlers
from txqueue.node.peers.handover import Handover
from txqueue.node.peers.network import PeerNetwork
from txqueue.node.peers.peer import LagMeter, OwnReport, PeerTable
from txqueue.node.settings import (
    NodeSettings,
    policy_row,
    row_of,
    served_types,
    worker_settings,
)
from txqueue.node.state.arrivals import Deduplicator, Meters
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import BeatListener, IMasterReactor, Wakeups
from txqueue.node.upkeep import Archiving, DeployGuard, Maintenance
from txqueue.node.workers.completions import Completions, EndNotifier
from txqueue.node.workers.pool import WorkerPool
from txqueue.node.workers.starter import (
    ForkingStarter,
    SpawningStarter,
    WorkerStarter,
    WorkerVersions,
)
from txqueue.node.workers.suspects import SuspectProcesses, Suspects
from txqueue.node.workers.watchdog import Watchdog
from txqueue.node.workers.workload import Workers
from txqueue.policy.placement.idling import IdlePace
from txqueue.policy.worker_start import forks_workers
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import RefusedStatements
from txqueue.store.driver.listener import Listener
from txqueue.store.driver.reconnecting import ReconnectBackoff
from txqueue.store.driver.session_bounds import of_a_master
from txqueue.store.inquiries.operations import ArchiveProcess
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.schedules import MOST_CHECKS, Schedules

# One connection each for claims, completions, long outcomes and other statements, opened when it is
# needed; a fifth listens, and claims ordinary jobs.
CONNECTIONS = 4


class Services:
    """The services of a node, and the state that they share.

    Args:
        reactor: The master's reactor.
        settings: The node's settings.
    """

    def __init__(self, reactor: IMasterReactor, settings: NodeSettings) -> None:
        self.settings = settings
        types = served_types()

        # What services share: it calls none of them.
        self.lease = lease = Lease(settings.lease)
        self.lifecycle = lifecycle = Lifecycle(reactor)
        wakeups = Wakeups(reactor, IdlePace(settings.lease, settings.poll))
        deduplicator, suspects = Deduplicator(), Suspects(reactor)
        self.meters = meters = Meters()
        self.peers = peers = PeerTable(reactor)
        self.versions = versions = WorkerVersions(
            [cls.work_type for cls in types], [type_version(cls) for cls in types]
        )

        # The database.
        # The longest delay of a reconnect is shorter than the lease, or other nodes would rescue
        # this node's jobs first.
        self.backoff = backoff = ReconnectBackoff(longest=settings.lease / 5)
        refused, notices = RefusedStatements(), DatabaseNotices(wakeups)
        self.pool = pool = _pool(reactor, settings, backoff, CONNECTIONS)
        # It opens no connection before the first condition of a schedule.
        self.condition_pool = _pool(reactor, settings, backoff, MOST_CHECKS)
        listener = Listener(
            reactor,
            settings.dsn,
            settings.schema,
            notices.on_notices,
            notices.on_own_notices,
            patience=settings.patience,
            session=of_a_master(settings.patience),
            backoff=backoff,
        )
        self.functions = functions = StoredFunctions(
            pool, settings.schema, listener=listener, refused=refused
        )
        self.notifications = Notifications(reactor, listener, functions, lease, wakeups)

        # The jobs that the workers hold, and what they report of them.
        self.end_notifier = EndNotifier(reactor, functions)
        self.completions = completions = Completions(
            reactor, functions, lease, self.end_notifier, wakeups, meters
        )
        self.workers = workers = Workers(
            reactor, settings.workers, settings.capacity, completions, suspects
        )
        self.watchdog = Watchdog(
            reactor,
            functions,
            lease,
            workers,
            completions,
            wakeups.heartbeats,
            kill_after=settings.kill_stuck,
        )
        self.lag = lag = LagMeter(reactor, workers, peers)
        self.maintenance = maintenance = Maintenance(
            reactor, functions, workers, completions, meters, wakeups
        )
        self.guard = (
            DeployGuard(reactor, functions, lease, versions, settings, wakeups)
            if settings.deploy_guard
            else None
        )
        self.archiving = Archiving(reactor, functions, settings.dsn, settings.schema)

        # The jobs that others assign to this node.
        intake = Intake(workers, deduplicator, lifecycle, completions)
        self.inbox = inbox = Inbox(reactor, functions, lease, intake)
        self.credits = credits = Credits(
            reactor,
            functions,
            settings.name,
            lease,
            lifecycle,
            workers,
            peers,
            deduplicator,
            inbox,
            wakeups,
        )
        self.open_credit = open_credit = OpenCredit(
            reactor, functions, listener, notices, lease, lifecycle, workers, intake, wakeups
        )
        own_report = OwnReport(lease, lifecycle, workers, lag)
        self.handover = handover = Handover(
            reactor,
            functions,
            lease,
            lifecycle,
            workers,
            peers,
            own_report,
            inbox,
            completions,
        )

        # The jobs that this node claims, and those that it enqueues.
        self.claimer = claimer = Claimer(
            reactor,
            functions,
            lease,
            settings.queues,
            versions,
            workers,
            peers,
            maintenance,
            [credits, handover, open_credit],
            open_credit,
            meters,
            wakeups,
        )
        self.reconciliation = Reconciliation(
            reactor,
            functions,
            lease,
            workers,
            completions,
            claimer,
            deduplicator,
            wakeups,
        )
        self.scheduler = scheduler = Scheduler(
            reactor,
            Schedules(pool, settings.schema, refused=refused),
            ConditionChecks(reactor, Schedules(self.condition_pool, settings.schema), wakeups),
            types,
            lease,
            wakeups,
        )

        # The worker processes.
        self.starter = _starter(reactor, settings)
        self.worker_pool = WorkerPool(
            reactor,
            self.starter,
            workers,
            worker_settings(settings),
            [claimer, handover, credits],
            meters,
            versions,
            suspects,
            settings.worker_limits,
        )
        self.suspect_processes = SuspectProcesses(
            reactor, functions, suspects, workers, self.worker_pool
        )

        # The lease, and the other nodes.
        keeper = LeaseKeeper(reactor, lease, workers, credits, wakeups)
        self.lease_proxy = LeaseProxy(reactor, functions, lease, peers)
        listeners: list[BeatListener] = [
            wakeups,
            scheduler,
            workers,
            self.lease_proxy,
            credits,
            handover,
            maintenance,
        ]
        self.peer_network: PeerNetwork | None = None
        if settings.listen is not None:
            self.peer_network = PeerNetwork(
                reactor,
                settings.name,
                settings.listen,
                peers,
                lease,
                keeper,
                lifecycle,
                own_report,
                handover,
                wakeups,
            )
            listeners.append(self.peer_network)
        self.description = Description(self)
        self.heartbeats = Heartbeats(
            reactor,
            functions,
            node=row_of(settings),
            work_types=[policy_row(cls) for cls in types],
            host=settings.host,
            lease=lease,
            workers=workers,
            keeper=keeper,
            lifecycle=lifecycle,
            load_meter=self.description,
            meters=meters,
            listeners=listeners,
            processes=self.worker_pool,
            wakeups=wakeups,
        )

        # Operators, and applications of this host.
        self.admin: AdminEndpoint | None = None
        if settings.admin is not None:
            find_archived = ArchiveProcess(reactor).job
            operators = AdminHandlers(
                pool, settings.schema, find_archived, self.description, lease, workers
            )
            self.admin = AdminEndpoint(
                reactor, settings.admin, self.description, lifecycle, operators, credits
            )


def _pool(
    reactor: IMasterReactor, settings: NodeSettings, backoff: ReconnectBackoff, size: int
) -> ConnectionPool:
    return ConnectionPool(
        reactor,
        settings.dsn,
        size,
        f"txqueue {settings.name}",
        patience=settings.patience,
        backoff=backoff,
        any_moment=True,
        session=of_a_master(settings.patience),
    )


def _starter(reactor: IMasterReactor, settings: NodeSettings) -> WorkerStarter:
    """Return what starts worker processes, as the settings say."""
    spawning = SpawningStarter(reactor)
    if not forks_workers(settings.worker_start, settings.workers, sys.platform):
        return spawning
    is_demanded = settings.worker_start == "fork"
    return ForkingStarter(reactor, worker_settings(settings), spawning, is_demanded=is_demanded)
