"""A node's master: the order in which its services start and stop."""

from __future__ import annotations

from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.node.services import Services
from txqueue.node.settings import NodeSettings
from txqueue.node.state.periodic import IMasterReactor, Outage, Periodic
from txqueue.policy.health import Health

# Seconds in which an immediate stop must write the jobs that it returns.
LAST_GRACE = 5.0


class Node(MultiService):
    """The master of a node: starts and stops its services.

    Args:
        reactor: The master's reactor.
        settings: The node's settings; the modules of its ``app`` are already imported.
    """

    log = Logger()

    def __init__(self, reactor: IMasterReactor, settings: NodeSettings) -> None:
        super().__init__()
        self._reactor = reactor
        self._name = settings.name
        self._services = services = Services(reactor, settings)
        self._draining: Deferred[None] | None = None
        self._outage = Outage(reactor, services.backoff, settings.name)
        for service in (
            services.heartbeats,
            services.worker_pool,
            services.completions,
            services.end_notifier,
            services.watchdog,
            services.suspect_processes,
            *self._takers,
            services.notifications,
            services.open_credit,
            services.inbox,
            services.reconciliation,
            services.peer_network,
            services.lease_proxy,
            services.lag,
            services.handover,
            services.admin,
        ):
            if service is not None:
                service.setServiceParent(self)
            if isinstance(service, Periodic):
                service.outage = self._outage

    @property
    def _takers(self) -> list[Service | None]:
        """The services that take or start work, which stop first."""
        services = self._services
        return [
            services.claimer,
            services.scheduler,
            services.maintenance,
            services.guard,
            services.archiving,
        ]

    @property
    def node_name(self) -> str:
        """The node's name in the queue."""
        return self._name

    @property
    def health(self) -> Health:
        """Whether the node is live and ready, decided without a query."""
        return self._services.description.health()

    @property
    def has_failed(self) -> bool:
        """Whether the node stopped because another process has its name or port."""
        return self._services.lifecycle.has_failed

    @property
    def its_services(self) -> Services:
        """The node's services, which have counted what metrics tell."""
        return self._services

    def stopService(self) -> Deferred[None]:
        """Drain: claim nothing, return unstarted jobs, wait for running ones, and unregister."""
        self.running = False
        self._services.lifecycle.end()
        self._services.credits.review()
        self._services.open_credit.alarm.ring()
        self._draining = Deferred.fromCoroutine(self._drain())
        return self._draining.addErrback(self._not_drained)

    async def _drain(self) -> None:
        services = self._services
        await _stop(*self._takers)
        await services.heartbeats.leave("draining")
        await services.handover.drain()
        await services.worker_pool.drain()
        await _stop(services.suspect_processes, services.watchdog, services.worker_pool)
        await _stop(services.notifications, services.open_credit, services.inbox)
        await _stop(services.reconciliation)
        await _stop(services.peer_network, services.lease_proxy, services.lag, services.admin)
        await services.completions.close()
        await services.end_notifier.close()
        await _stop(services.heartbeats)
        self._outage.end()
        await services.heartbeats.leave("stopped")
        services.condition_pool.close()
        services.pool.close()

    def say_that_it_drains(self) -> None:
        """Log what the stop waits for, and how to stop at once."""
        self.log.info(
            "draining, {running} jobs running; the same signal again stops it now",
            running=self._services.workers.in_flight,
        )

    def stop_at_once(self) -> None:
        """Kill the worker processes, return their jobs and unregister, all within seconds."""
        self._services.worker_pool.stop_at_once()
        self._reactor.callLater(LAST_GRACE, self._give_up)

    def _give_up(self) -> None:
        if self._draining is not None:
            self._draining.cancel()

    def _not_drained(self, failure: Failure) -> None:
        self.log.error(
            "stopped before all was written; the rest is rescued when the lease expires: {error!r}",
            error=failure.value,
        )


async def _stop(*services: Service | None) -> None:
    """Stop services one after the other."""
    for service in services:
        stopping = None if service is None else service.stopService()
        if stopping is not None:
            await stopping
