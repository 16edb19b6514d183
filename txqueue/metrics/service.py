"""The metrics as a service: collects them, and serves them over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final

from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.web import resource, server

from txqueue.errors import ConfigurationError, TxqueueError
from txqueue.metrics.families import installation_families, node_families, process_families
from txqueue.node.node import Node
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.inquiries.operations import Operations
from txqueue.store.reads.metrics import Installation, about_installation
from txqueue.system.clock import Clock
from txqueue.system.descriptors import has_spare_descriptors
from txqueue.wire.endpoints import Endpoint
from txqueue.wire.http_server import BoundedServer, HttpService, QuietSite
from txqueue.wire.pipe import DescriptorGuard


def check_metrics(endpoint: Endpoint) -> None:
    """Check that metrics can be served.

    Raises:
        ConfigurationError: When prometheus_client is not installed, or the endpoint is in use.
    """
    if find_spec("prometheus_client") is None:
        raise ConfigurationError(
            "metrics need prometheus_client", "run: pip install 'txqueue[metrics]'"
        )
    endpoint.ensure_free("choose another --metrics")


_log = Logger()

# Seconds after which a query is given up.
_PATIENCE: Final = 2.0
# The installation is queried again after FRESH seconds, and after COST times as long as it took.
_FRESH, _COST = 15.0, 50.0
# The most connections, and the seconds after which a silent one is closed.
_MOST_CONNECTED, _IDLE = 32, 30


class InstallationReader:
    """Reads the state of the installation, and keeps it for some seconds.

    Args:
        clock: Tells how old it is.
        operations: Runs the queries.
        schema: The name of the schema.
    """

    def __init__(self, clock: Clock, operations: Operations, schema: str) -> None:
        self._clock = clock
        self._operations = operations
        self._schema = schema
        self._installation: Installation | None = None
        self._read_at = self._due_at = float("-inf")
        self._is_failing = False
        self.errors = 0
        """How many reads have failed."""

    async def read(self) -> tuple[Installation | None, float]:
        """Return the state and its age in seconds; None if it was never read.

        While it cannot be read, it is the last one; the first failure is logged.
        """
        start = self._clock.seconds()
        if start >= self._due_at:
            # Before the query, so that another scrape does not send it, too.
            self._due_at = start + _FRESH
            try:
                self._installation = await self._operations.find(about_installation(self._schema))
                self._read_at = self._clock.seconds()
                self._is_failing = False
            except TxqueueError as error:
                self.errors += 1
                if not self._is_failing:
                    _log.warn("the metrics of the installation cannot be read: {why}", why=error)
                self._is_failing = True
            duration = self._clock.seconds() - start
            self._due_at = self._clock.seconds() + max(_FRESH, _COST * duration)
        return self._installation, self._clock.seconds() - self._read_at


class Metrics(HttpService):
    """Serves the metrics at ``/metrics``.

    Args:
        reactor: Listens, and times the queries.
        endpoint: Where they are served.
        dsn: A libpq URI or keyword string.
        schema: The name of the schema.
        nodes: The nodes of this process by name.
    """

    def __init__(
        self, reactor: Any, endpoint: Endpoint, dsn: str, schema: str, nodes: Mapping[str, Node]
    ) -> None:
        root = resource.Resource()
        root.putChild(b"metrics", _Page(self))
        site = QuietSite(root, reactor=reactor, timeout=_IDLE)
        guard = DescriptorGuard(has_spare_descriptors)
        served = BoundedServer(site, _MOST_CONNECTED, guard)
        super().__init__(reactor, endpoint, served, "the server of metrics")
        self._nodes = nodes
        self._pool = ConnectionPool(
            reactor,
            dsn,
            1,
            "txqueue metrics",
            patience=_PATIENCE + 3.0,
            any_moment=True,
        )
        operations = Operations(self._pool, schema, patience=_PATIENCE)
        self._reader = InstallationReader(reactor, operations, schema)

    def stopService(self) -> Deferred[None]:
        """Stop listening, and close the connection to the database."""
        return super().stopService().addCallback(lambda _: self._pool.close())

    async def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        installation, age = await self._reader.read()
        families = self._families(installation, age)
        return generate_latest(SimpleNamespace(collect=lambda: families))

    def _families(self, installation: Installation | None, age: float) -> list[Metric]:
        families: list[Metric] = []
        is_shared = len(self._nodes) > 1
        for name, node in self._nodes.items():
            labels = {"queue_node": name} if is_shared else {}
            families = _merged(families, node_families(node.its_services, labels))
        if installation is not None:
            families += installation_families(installation, age)
        credentials = self._endpoint.credentials
        expires_at = credentials.expires_at().timestamp() if credentials else None
        return [*families, *process_families(self._reader.errors, expires_at)]


def _merged(families: list[Metric], added: Iterable[Metric]) -> list[Metric]:
    """Add the series of one node to those of others: a family is written once."""
    by_name = {family.name: family for family in families}
    for family in added:
        if family.name in by_name:
            by_name[family.name].samples += family.samples
        else:
            by_name[family.name] = family
    return list(by_name.values())


class _Page(resource.Resource):
    """Answers GET and HEAD with the metrics."""

    isLeaf = True

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._metrics = metrics

    def render_GET(self, request: server.Request) -> int:
        closings: list[object] = []
        request.notifyFinish().addErrback(closings.append)
        Deferred.fromCoroutine(self._answer(request, closings))
        return server.NOT_DONE_YET

    async def _answer(self, request: server.Request, closings: Sequence[object]) -> None:
        body = b""
        try:
            body = await self._metrics.exposition()
        except Exception:
            _log.failure("the metrics could not be collected")
            request.setResponseCode(500)
        if not closings:
            request.setHeader("Content-Type", CONTENT_TYPE_LATEST)
            request.setHeader("Cache-Control", "no-store")
            request.write(body)
            request.finish()
