"""The wiring of a node: makes each service together with those that it calls."""

from __future__ import annotations

import sys
from functools import cached_property

from txqueue.node.arrival.claimer import Claimer, HeavyJobs
from txqueue.node.arrival.credits import Credits
from txqueue.node.arrival.notifications import Notifications
from txqueue.node.arrival.open_credit import OpenCredit
from txqueue.node.arrival.orphans import Intake, OrphanFinder
from txqueue.node.arrival.scheduler import ConditionChecks, Scheduler
from txqueue.node.description import Description, FigureCollector
from txqueue.node.leasing.heartbeats import DatabaseLife, Heartbeats, LeaseKeeper, LeaseProxy
from txqueue.node.leasing.reconciliation import Reconciliation
from txqueue.node.operators.endpoint import AdminEndpoint, AdminHandlers
from txqueue.node.peers.handover import Handover
from txqueue.node.peers.network import PeerNetwork
from txqueue.node.peers.own_report import LagMeter, OwnReport
from txqueue.node.settings import policy_row, row_of, worker_settings
from txqueue.node.shared_state import SharedState
from txqueue.node.state.collaborators import BeatListener
from txqueue.node.upkeep.maintenance import Archiving, Maintenance
from txqueue.node.workers.completions import Completions, EndNotifier
from txqueue.node.workers.pool import WorkerPool
from txqueue.node.workers.starter import ForkingStarter, SpawningStarter, WorkerStarter
from txqueue.node.workers.suspects import SuspectProcesses
from txqueue.node.workers.watchdog import Watchdog
from txqueue.node.workers.workload import Workers
from txqueue.policy.worker_start import forks_workers
from txqueue.store.driver.listener import Listener
from txqueue.store.driver.session_bounds import of_a_master
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.reads.archive_process import ArchiveProcess
from txqueue.store.schedules import Schedules


class Services(SharedState):
    """The services of a node, each made on first use, so that the order of construction does not
    matter.

    They share state objects that call no service, so that there are no cycles.

    Args:
        reactor: The master's reactor.
        settings: The node's settings.
    """

    # The database.

    @cached_property
    def listener(self) -> Listener:
        """The connection that listens for NOTIFY."""
        return Listener(
            self.reactor,
            self.settings.dsn,
            self.settings.schema,
            self.notices.heard,
            self.notices.heard_own,
            patience=self.settings.patience,
            session=of_a_master(self.settings.patience),
            backoff=self.backoff,
        )

    @cached_property
    def functions(self) -> StoredFunctions:
        """The stored functions."""
        return StoredFunctions(
            self.pool, self.settings.schema, listener=self.listener, refused=self.refused
        )

    # The lease.

    @cached_property
    def heartbeats(self) -> Heartbeats:
        """Registers the node and renews its lease."""
        listeners: list[BeatListener | None] = [
            self.wakeups,
            self.scheduler,
            self.workers,
            self.peer_network,
            self.lease_proxy,
            self.credits,
            self.handover,
            self.maintenance,
        ]
        return Heartbeats(
            self.reactor,
            self.functions,
            node=row_of(self.settings),
            work_types=[policy_row(cls) for cls in self.types],
            host=self.settings.host,
            lease=self.lease,
            life=DatabaseLife(self.functions, self.workers),
            keeper=self.lease_keeper,
            lifecycle=self.lifecycle,
            load_meter=self.description,
            meters=self.meters,
            listeners=[listener for listener in listeners if listener is not None],
            processes=self.worker_pool,
            wakeups=self.wakeups,
        )

    @cached_property
    def lease_keeper(self) -> LeaseKeeper:
        """Writes the lease, and acts when it changes."""
        return LeaseKeeper(
            self.reactor,
            self.lease,
            workers=self.workers,
            credits=self.credits,
            wakeups=self.wakeups,
        )

    # The workers and their reports.

    @cached_property
    def completions(self) -> Completions:
        """Writes the outcomes of jobs."""
        return Completions(
            self.reactor,
            self.functions,
            lease=self.lease,
            ends=self.end_notifier,
            wakeups=self.wakeups,
            meters=self.meters,
        )

    @cached_property
    def end_notifier(self) -> EndNotifier:
        """Notifies waiting clients of ended jobs."""
        return EndNotifier(self.reactor, self.functions)

    @cached_property
    def workers(self) -> Workers:
        """Distributes jobs among the workers."""
        return Workers(
            self.reactor,
            count=self.settings.workers,
            capacity=self.settings.capacity,
            reports=self.completions,
            suspects=self.suspects,
        )

    @cached_property
    def worker_starter(self) -> WorkerStarter:
        """Starts worker processes, as the settings say."""
        settings, spawning = self.settings, SpawningStarter(self.reactor)
        if not forks_workers(settings.worker_start, settings.workers, sys.platform):
            return spawning
        is_demanded = settings.worker_start == "fork"
        return ForkingStarter(
            self.reactor, worker_settings(settings), spawning, is_demanded=is_demanded
        )

    @cached_property
    def worker_pool(self) -> WorkerPool:
        """Starts and replaces the worker processes."""
        return WorkerPool(
            self.reactor,
            self.worker_starter,
            self.workers,
            settings=worker_settings(self.settings),
            listeners=[self.claimer, self.handover, self.credits],
            meters=self.meters,
            versions=self.versions,
            suspects=self.suspects,
        )

    @cached_property
    def suspect_processes(self) -> SuspectProcesses:
        """Starts processes for suspects."""
        return SuspectProcesses(self.reactor, self.suspects, self.workers, self.worker_pool)

    @cached_property
    def watchdog(self) -> Watchdog:
        """Watches for workers that do not answer."""
        return Watchdog(
            self.reactor,
            self.functions,
            lease=self.lease,
            workers=self.workers,
            records=self.completions,
            heartbeats=self.wakeups.heartbeats,
            kill_after=self.settings.kill_stuck,
        )

    # The ways in which jobs arrive.

    @cached_property
    def claimer(self) -> Claimer:
        """Claims ready jobs."""
        return Claimer(
            self.reactor,
            self.functions,
            lease=self.lease,
            queues=self.settings.queues,
            versions=self.versions,
            workers=self.workers,
            heavy_jobs=HeavyJobs(self.reactor, self.peer_table),
            lanes=self.maintenance,
            listeners=[self.credits, self.handover, self.open_credit],
            open_credit=self.open_credit,
            meters=self.meters,
            wakeups=self.wakeups,
        )

    @cached_property
    def credits(self) -> Credits:
        """Grants credit to clients, and runs the jobs that they deliver."""
        return Credits(
            self.reactor,
            self.functions,
            name=self.settings.name,
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=self.workers,
            peers=self.peer_table,
            deduplicator=self.deduplicator,
            inbox=self.inbox,
            wakeups=self.wakeups,
        )

    @cached_property
    def open_credit(self) -> OpenCredit:
        """Grants open credit, and runs the jobs enqueued by it."""
        return OpenCredit(
            self.reactor,
            self.functions,
            listener=self.listener,
            notices=self.notices,
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=self.workers,
            intake=self.intake,
            wakeups=self.wakeups,
        )

    @cached_property
    def intake(self) -> Intake:
        """Takes each assignment once that was read after a notice or a poll."""
        return Intake(self.workers, self.deduplicator, self.lifecycle, self.completions)

    @cached_property
    def orphans(self) -> OrphanFinder:
        """Finds jobs that were handed to the node by a message that was lost."""
        return OrphanFinder(
            self.reactor,
            self.functions,
            lease=self.lease,
            inbox=self.inbox,
            workers=self.workers,
            intake=self.intake,
            clients=self.credits,
            peers=self.peer_table,
            wakeups=self.wakeups,
        )

    @cached_property
    def reconciliation(self) -> Reconciliation:
        """Returns to the queue the jobs that are assigned to the node but not held by it."""
        return Reconciliation(
            self.reactor,
            self.functions,
            lease=self.lease,
            every=self.wakeups.pace.beat,
            workers=self.workers,
            records=self.completions,
            claims=self.claimer,
            deduplicator=self.deduplicator,
            wakeups=self.wakeups,
        )

    @cached_property
    def scheduler(self) -> Scheduler:
        """Enqueues the jobs of schedules."""
        return Scheduler(
            self.reactor,
            Schedules(self.pool, self.settings.schema, refused=self.refused),
            checks=ConditionChecks(
                self.reactor, Schedules(self.condition_pool, self.settings.schema), self.wakeups
            ),
            classes=self.types,
            lease=self.lease,
            wakeups=self.wakeups,
        )

    @cached_property
    def notifications(self) -> Notifications:
        """Listens for NOTIFY."""
        return Notifications(
            self.reactor,
            self.listener,
            functions=self.functions,
            lease=self.lease,
            wakeups=self.wakeups,
        )

    # The other nodes.

    @cached_property
    def lag(self) -> LagMeter:
        """Measures reactor lag and waiting jobs."""
        return LagMeter(self.reactor, self.workers, self.peer_table)

    @cached_property
    def own_report(self) -> OwnReport:
        """Makes the node's report to peers."""
        return OwnReport(self.lease, self.lifecycle, self.workers, self.lag)

    @cached_property
    def handover(self) -> Handover:
        """Balances work with peers."""
        return Handover(
            self.reactor,
            self.functions,
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=self.workers,
            peers=self.peer_table,
            own=self.own_report,
            deduplicator=self.deduplicator,
            inbox=self.inbox,
            records=self.completions,
        )

    @cached_property
    def peer_network(self) -> PeerNetwork | None:
        """Keeps connections to peers, if the node listens for any."""
        if self.settings.listen is None:
            return None
        return PeerNetwork(
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
        """Renews leases of peers that answer but cannot reach the database."""
        return LeaseProxy(self.reactor, self.functions, self.lease, self.peer_table)

    # Upkeep and operators.

    @cached_property
    def maintenance(self) -> Maintenance:
        """Rotates lanes, and maintains history."""
        return Maintenance(
            clock=self.reactor,
            functions=self.functions,
            workers=self.workers,
            records=self.completions,
            meters=self.meters,
            wakeups=self.wakeups,
        )

    @cached_property
    def archiving(self) -> Archiving:
        """Archives old days of history."""
        return Archiving(self.reactor, self.functions, self.settings.dsn, self.settings.schema)

    @cached_property
    def description(self) -> Description:
        """Makes the node's description for operators."""
        return Description(
            settings=self.settings,
            functions=self.functions,
            backoff=self.backoff,
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=self.workers,
            starter=self.worker_starter,
            completions=self.completions,
            reconciliation=self.reconciliation,
            credits=self.credits,
            orphans=self.orphans,
            peers=self.peer_table,
            lag=self.lag,
            versions=self.versions,
        )

    @cached_property
    def figures(self) -> FigureCollector:
        """Collects the node's figures for metrics."""
        return FigureCollector(
            meters=self.meters,
            lease=self.lease,
            workers=self.workers,
            completions=self.completions,
            credits=self.credits,
            open_credit=self.open_credit,
            orphans=self.orphans,
            handover=self.handover,
            reconciliation=self.reconciliation,
            peers=self.peer_table,
            lag=self.lag,
        )

    @cached_property
    def admin(self) -> AdminEndpoint | None:
        """Serves operators and joined applications, if the node has an admin endpoint."""
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
                archive=ArchiveProcess(self.reactor),
            ),
            guests=self.credits,
        )
