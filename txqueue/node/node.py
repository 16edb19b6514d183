"""Puts a node's services together and sees them through start, drain and stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.errors import TxqueueError
from txqueue.node.admin_endpoint import AdminEndpoint
from txqueue.node.admin_handlers import AdminHandlers
from txqueue.node.archiving import Archiving
from txqueue.node.claimer import Claimer
from txqueue.node.cluster import Cluster
from txqueue.node.completions import Completions
from txqueue.node.credits import Credits
from txqueue.node.deduplication import Deduplicator
from txqueue.node.lease import BEATS_A_LEASE, NodeLease
from txqueue.node.maintenance import Maintenance
from txqueue.node.notifications import Notifications
from txqueue.node.orphans import OrphanFinder
from txqueue.node.periodic import Periodic
from txqueue.node.reconciliation import Reconciliation
from txqueue.node.scheduler import Scheduler
from txqueue.node.settings import NodeSettings, policy_row, row_of, served_types
from txqueue.node.watchdog import Watchdog
from txqueue.node.worker_pool import WorkerPool
from txqueue.node.yielding import Yielding
from txqueue.store.backoff import Backoff
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.functions import Beat, StoredFunctions
from txqueue.store.listener import Listener
from txqueue.store.schedules import Schedules
from txqueue.store.session_bounds import of_a_master

__all__ = ["Node", "NodeSettings"]

# One each for claims, for completions and for the rest; the listener has a fourth.
CONNECTIONS = 3
# A statement without an answer for so long, or for a lease, is held for lost; seconds.
PATIENCE = 10.0
FOR_WORKERS = ("dsn", "app", "capacity", "name", "schema")
# What a stop at once has to write down what it gives back; seconds.
LAST_GRACE = 5.0


class Node(MultiService):
    """A node's master.

    Args:
        reactor: Times, watches and spawns.
        settings: How it runs; the modules of ``app`` are imported.

    Attributes:
        has_failed: Whether it stopped by itself: another took its name, or its port.
    """

    log = Logger()

    def __init__(self, reactor: Any, settings: NodeSettings) -> None:
        super().__init__()
        self._reactor = reactor
        self._settings = settings
        self.has_failed = False
        self._draining: Deferred[None] | None = None
        # Cap the reconnect backoff below the lease, or other nodes rescue this node's jobs first.
        self._backoff = Backoff(longest=settings.lease / 5)
        patience = max(settings.lease, PATIENCE)
        self._pool = ConnectionPool(
            reactor,
            settings.dsn,
            CONNECTIONS,
            f"txqueue {settings.name}",
            patience=patience,
            backoff=self._backoff,
            any_moment=True,
            session=of_a_master(patience),
        )
        self._engine = StoredFunctions(self._pool, settings.schema)
        self._types = served_types()
        self._completions = Completions(
            reactor, self._engine, lambda: self._lease.incarnation, given_back=self._wake
        )
        self._workers = self._made_workers()
        self._deduplicator = Deduplicator()
        self._queue_identity = ""
        self._lease = self._made_lease()
        self._maintenance = Maintenance(
            reactor, self._engine, lambda: self._workers.load > 0 or not self._completions.is_clean
        )
        self._archiving = Archiving(reactor, self._engine, settings.dsn, settings.schema)
        self._claimer = self._made_claimer()
        self._scheduler = self._made_scheduler()
        self._orphans = self._made_orphans()
        self._reconciliation = self._made_reconciliation()
        self._watchdog = self._made_watchdog()
        self._cluster = self._made_cluster()
        self._credits = self._made_credits()
        self._notifications = Notifications(
            reactor,
            Listener(reactor, settings.dsn, settings.schema, lambda _: self._wake(), self._backoff),
            self._wake,
        )
        self._admin = self._made_admin()
        for service in self._in_order():
            service.setServiceParent(self)

    def _made_workers(self) -> WorkerPool:
        return WorkerPool(
            self._reactor,
            workers=self._settings.workers,
            capacity=self._settings.capacity,
            settings={name: getattr(self._settings, name) for name in FOR_WORKERS},
            reports=self._completions,
            room_made=self._room_made,
        )

    def _made_lease(self) -> NodeLease:
        return NodeLease(
            self._reactor,
            self._engine,
            node=row_of(self._settings),
            work_types=[policy_row(cls) for cls in self._types],
            host=self._settings.host,
            load=lambda: self._workers.load,
            report=self._report,
            heard=self._heard,
            renewed=self._workers.renew,
            lost=self._lease_lost,
            gained=self._wake,
            replaced=self._replaced,
        )

    def _made_claimer(self) -> Claimer:
        return Claimer(
            self._reactor,
            self._engine,
            identity=lambda: self._lease.identity,
            queues=self._settings.queues,
            work_types=[cls.work_type for cls in self._types],
            performers=self._workers,
            yielding=Yielding(self._reactor.seconds, self._has_idle_peer),
            claimed=self._maintenance.claimed,
            looked=self._looked,
            lost=self._claim_lost,
        )

    def _has_idle_peer(self) -> bool:
        work_types = {cls.work_type for cls in self._types}
        return self._cluster.has_idle_peer(set(self._settings.queues), work_types)

    def _made_scheduler(self) -> Scheduler:
        return Scheduler(
            self._reactor,
            Schedules(self._pool, self._settings.schema),
            classes=self._types,
            has_lease=lambda: self._lease.identity is not None,
            ticked=self._claimer.alarm.ring,
        )

    def _made_orphans(self) -> OrphanFinder:
        return OrphanFinder(
            self._reactor,
            self._engine,
            identity=lambda: self._lease.identity,
            held=lambda: self._workers.assignments,
            accept=self._deduplicator.accept,
            perform=self._workers.perform,
            has_clients=lambda: self._credits.are_out,
            has_peers=lambda: self._cluster.has_peers,
        )

    def _made_reconciliation(self) -> Reconciliation:
        return Reconciliation(
            self._reactor,
            self._engine,
            incarnation=lambda: self._lease.identity[1] if self._lease.identity else None,
            every=self._settings.lease / BEATS_A_LEASE,
            holder=self._workers,
            records=self._completions,
            claim=lambda: self._claimer.claim,
            accept=self._deduplicator.accept,
        )

    def _made_watchdog(self) -> Watchdog:
        return Watchdog(
            self._reactor,
            self._engine,
            incarnation=lambda: self._lease.identity[1] if self._lease.identity else None,
            workers=lambda: self._workers.ready,
            records=self._completions,
            kill_after=self._settings.kill_stuck,
        )

    def _made_credits(self) -> Credits:
        return Credits(
            self._reactor,
            name=self._settings.name,
            identity=lambda: self._lease.reaching,
            queue_identity=self._identity_of_queue,
            room=lambda: self._workers.room,
            peer_loads=self._cluster.loads,
            perform=self._workers.perform,
            accept=self._deduplicator.accept,
            read=self._orphans.read,
            forward=self._cluster.forward,
            wake=self._wake_for_work,
            joined=self._orphans.alarm.ring,
        )

    def _made_cluster(self) -> Cluster:
        return Cluster(
            self._reactor,
            self._engine,
            name=self._settings.name,
            endpoint=self._settings.listen,
            workers=self._workers,
            identity=lambda: self._lease.identity,
            reaches=lambda: self._lease.reaching is not None,
            accept=self._deduplicator.accept,
            read=self._orphans.read,
            give_back=lambda number, ids: self._completions.give_back(number, died=False, ids=ids),
            woken=self._wake,
            turned=self._turned,
            look_again=self._lease.alarm.ring,
            kept=self._lease.kept,
            failed=self._fail,
        )

    def _made_admin(self) -> AdminEndpoint | None:
        if self._settings.admin is None:
            return None
        # Only our own account reaches a unix socket; any account of this host could join at a port.
        greet = self._credits.greet if self._settings.admin.path is not None else None
        desk = AdminHandlers(
            self._pool, self._settings.schema, describe=self.describe, cancelled=self._cancelled
        )
        return AdminEndpoint(
            self._reactor,
            self._settings.admin,
            self.describe,
            self._fail,
            responders=desk.responders,
            greet=greet,
        )

    def stopService(self) -> Deferred[None]:
        """Drain: take nothing, give back what was not started, wait for what runs, and leave."""
        self.running = False
        self._credits.close()
        self._draining = Deferred.fromCoroutine(self._drain())
        return self._draining.addErrback(self._not_drained)

    def describe(self) -> dict[str, Any]:
        """Say how the node is, without asking the database; plain data, no secret."""
        return {
            **row_of(self._settings),
            **self._cluster.describe(),
            "incarnation": self._lease.incarnation,
            "state": "draining" if self._cluster.is_draining or not self.running else "alive",
            "has_lease": self._lease.identity is not None,
            "load": self._workers.load,
            "workers": self._workers.describe(),
            "direct_dispatch": {**self._credits.describe(), "adopted": self._orphans.adopted},
            "unwritten": not self._completions.is_clean,
            "missing": self._reconciliation.missing,
            "given_back": self._reconciliation.given_back,
        }

    def say_that_it_drains(self) -> None:
        """Write what a stop waits for, and how not to wait."""
        self.log.info(
            "draining, {running} jobs running; the same signal again stops it now",
            running=self._workers.in_flight,
        )

    def stop_at_once(self) -> None:
        """End the worker processes now, give their jobs back, and leave, all within seconds."""
        self._workers.stop_at_once()
        self._reactor.callLater(LAST_GRACE, self._give_up)

    def _in_order(self) -> list[Periodic | WorkerPool | Cluster | AdminEndpoint]:
        services = [
            self._lease,
            self._workers,
            self._completions,
            self._watchdog,
            self._claimer,
            self._scheduler,
            self._orphans,
            self._reconciliation,
            self._notifications,
            self._maintenance,
            self._archiving,
            self._cluster,
            self._admin,
        ]
        return [service for service in services if service is not None]

    def _report(self) -> Mapping[str, Any]:
        return {
            "workers": len(self._workers.describe()),
            "missing": self._reconciliation.missing,
            "holds": self._workers.holdings.total() + self._completions.unwritten,
            **self._cluster.report(),
        }

    def _heard(self, beat: Beat) -> None:
        """Act on a heartbeat's answer: the peers, and the jobs to cancel."""
        for assignment, job_id, who in beat.cancels:
            self._workers.cancel(assignment, job_id, who)
        self._cluster.heard(self._lease.incarnation, beat)

    def _turned(self, takes_jobs: bool) -> None:
        """An operator drains the node, or has it take jobs again."""
        if self.running and takes_jobs:
            self._credits.open()
            self._wake()
        elif self.running:
            self._credits.close()

    def _looked(self, has_backlog: bool) -> None:
        self._credits.looked(has_backlog=has_backlog)
        self._cluster.looked(has_backlog)

    def _lease_lost(self) -> None:
        self._credits.review()
        self._workers.give_back()

    def _claim_lost(self) -> None:
        self._reconciliation.alarm.ring()

    async def _identity_of_queue(self) -> str:
        if not self._queue_identity:
            self._queue_identity = await self._engine.identity()
        return self._queue_identity

    def _cancelled(self, incarnation: int, assignment: int, job_id: int, who: str) -> None:
        """Cancel a job at once if this node holds it, rather than at the next heartbeat."""
        if incarnation == self._lease.incarnation:
            self._workers.cancel(assignment, job_id, who)

    def _room_made(self) -> None:
        self._claimer.room_made()
        self._cluster.room_made()
        self._credits.room_made()

    def _wake(self) -> None:
        self._claimer.alarm.ring()
        self._scheduler.alarm.ring()

    def _wake_for_work(self) -> None:
        """Claim, for there is work; tell the peers too if there is no room here."""
        self._wake()
        if not self._workers.room.free:
            self._cluster.wake()

    def _replaced(self) -> None:
        if self.running:
            self._workers.stop_at_once()
            self._fail()

    def _fail(self) -> None:
        if self.running:
            self.has_failed = True
            # What fails at once does so before the reactor runs.
            self._reactor.callWhenRunning(self._reactor.stop)

    def _takers(self) -> list[Periodic]:
        """Return the services that take work, or begin it."""
        return [
            self._claimer,
            self._scheduler,
            self._orphans,
            self._reconciliation,
            self._notifications,
            self._maintenance,
            self._archiving,
        ]

    async def _drain(self) -> None:
        takers = [
            self._claimer,
            self._scheduler,
            self._orphans,
            self._reconciliation,
            self._notifications,
        ]
        for service in (*takers, self._maintenance, self._archiving):
            await _stopped(service)
        await self._say("draining")
        await self._cluster.drain()
        await self._workers.drain()
        await _stopped(self._watchdog)
        await _stopped(self._workers)
        await _stopped(self._cluster)
        if self._admin is not None:
            await _stopped(self._admin)
        await self._completions.close()
        await _stopped(self._lease)
        await self._say("stopped")
        self._pool.close()

    async def _say(self, state: str) -> None:
        try:
            await self._lease.leave(state)
        except TxqueueError as error:
            self.log.warn("could not say that it is {state}: {error}", state=state, error=error)

    def _give_up(self) -> None:
        if self._draining is not None:
            self._draining.cancel()

    def _not_drained(self, failure: Failure) -> None:
        self.log.error(
            "stopped before all was written; the rest is rescued when the lease expires: {error!r}",
            error=failure.value,
        )


async def _stopped(service: Periodic | WorkerPool | Cluster | AdminEndpoint) -> None:
    stopping = service.stopService()
    if stopping is not None:
        await stopping
