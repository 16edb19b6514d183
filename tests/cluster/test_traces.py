"""A trace from a web request over the jobs that follow, in a collector that speaks OTLP."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from attrs import Factory, frozen
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes, environment
from tests.waiting import eventually

APP: Final = "tests.cluster.app_of_traces"


@frozen
class Collector:
    """What has arrived.

    Attributes:
        spans: The spans, in the order in which they were sent.
    """

    spans: list[Any] = Factory(list)

    def named(self, name: str) -> list[Any]:
        """Those of a name."""
        return [span for span in self.spans if span.name == name]

    def parent_of(self, span: Any) -> str | None:
        """The name of a span's parent; None for the first of a trace."""
        names = {each.span_id: each.name for each in self.spans}
        return names[span.parent_span_id] if span.parent_span_id else None


@contextmanager
def collecting() -> Iterator[tuple[Collector, dict[str, str]]]:
    """Run a collector; yield it, and the environment in which the SDK finds it."""
    collector = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    collector.spans.extend(scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("localhost", 0), Receiver) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        place = f"http://localhost:{server.server_port}"
        try:
            yield (
                collector,
                {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": place,
                    "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
                    # Only the end of a process sends what it has collected.
                    "OTEL_BSP_SCHEDULE_DELAY": "3600000",
                },
            )
        finally:
            server.shutdown()
            thread.join()


async def test_a_request_and_all_jobs_that_follow_are_one_trace(nodes: Nodes, db: Database) -> None:
    """Over a transaction, later work, a next stage and a thread; retries only link to it.

    Workers are forked, and send at their end what they have collected.
    """
    with collecting() as (collector, told):
        node = await nodes.start("--workers", "2", app=APP, **told).up(2)
        assert len(node.templates) == 1
        subprocess.run(
            [sys.executable, "-m", APP],
            env=environment(TXQUEUE_DSN=db.dsn, **told),
            timeout=PATIENCE,
            check=True,
        )
        await eventually(lambda: db.states() == {"done": 4}, PATIENCE)
        nodes.stop()
        assert len(collector.spans) == 14
    [request] = collector.named("GET /buy")
    parents = {
        "send shop.Order": "GET /buy",
        "process shop.Order": "send shop.Order",
        "look up the customer": "process shop.Order",
        "send shop.Receipt": "look up the customer",
        "send shop.Pack": "process shop.Order",
        "process shop.Pack": "send shop.Pack",
        "send shop.Ship": "process shop.Pack",
        "process shop.Ship": "send shop.Ship",
        "print the label": "process shop.Ship",
    }
    for name, parent in parents.items():
        [span] = collector.named(name)
        assert span.trace_id == request.trace_id, name
        assert collector.parent_of(span) == parent
    [sent] = collector.named("send shop.Receipt")
    first: list[Any] = []
    again: list[Any] = []
    for run in collector.named("process shop.Receipt"):
        (again if run.links else first).append(run)
    assert [collector.parent_of(run) for run in first] == [sent.name] * 2
    for run in again:
        assert run.trace_id != request.trace_id
        assert not run.parent_span_id
        assert [(link.trace_id, link.span_id) for link in run.links] == [
            (sent.trace_id, sent.span_id)
        ]
    assert len(again) == 2
