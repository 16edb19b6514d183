"""A shop that traces: its web server's part, and the work that follows a purchase.

python -m tests.cluster.app_of_traces    handles one request: buys something
"""

import os
from pathlib import Path
from threading import Lock
from typing import Any

from attrs import define
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from twisted.internet import task

from txqueue import Next, Retry, Runtime, WorkItem, WorkQueue

# In a node, records that this process has imported the application.
if "TXQUEUE_TEST_NODE" in os.environ:
    Path(f"imported-{os.getpid()}").touch()


class LateBatches(SpanProcessor):
    """Sends spans in batches, by a thread that starts with the first span: as the page says."""

    batches: SpanProcessor | None = None
    lock = Lock()

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Start the thread with the first span."""
        with self.lock:
            self.batches = self.batches or BatchSpanProcessor(OTLPSpanExporter())
        self.batches.on_start(span, parent_context)

    def on_end(self, span: Any) -> None:
        """Collect the span."""
        assert self.batches is not None
        self.batches.on_end(span)

    def shutdown(self) -> None:
        """Send what is left."""
        if self.batches is not None:
            self.batches.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what is there."""
        return self.batches is None or self.batches.force_flush(timeout_millis)


# Where to send them, OTEL_EXPORTER_OTLP_ENDPOINT says.
_provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
_provider.add_span_processor(LateBatches())
trace.set_tracer_provider(_provider)
_tracer = trace.get_tracer("shop")


@define
class Order(WorkItem):
    """Has a receipt sent and the goods packed."""

    work_type = "shop.Order"

    async def perform(self, job: Any) -> None:
        """Enqueue one now, and one when this is done."""
        job.then(Pack())
        async with job.transaction() as txn:
            await txn.execute("select pg_sleep(0.01)")
            with _tracer.start_as_current_span("look up the customer"):
                await txn.enqueue_many([Receipt(), Receipt()])


@define
class Receipt(WorkItem):
    """Fails once."""

    work_type = "shop.Receipt"
    retry = Retry(attempts=2, first=0.1)

    async def perform(self, job: Any) -> None:
        """Fail once."""
        if job.attempt == 1:
            raise ConnectionError("the mail server is away")


@define
class Pack(WorkItem):
    """Has a next stage."""

    work_type = "shop.Pack"

    async def perform(self, job: Any) -> Next:
        """Go on to ship."""
        return Next(Ship())


@define
class Ship(WorkItem):
    """Works in a thread."""

    work_type = "shop.Ship"
    runtime = Runtime.THREAD

    def perform(self, job: Any) -> None:
        """Do something that has a span of its own."""
        with _tracer.start_as_current_span("print the label"):
            """Print."""


async def _buy(reactor: Any) -> None:
    queue = await WorkQueue.connect()
    with _tracer.start_as_current_span("GET /buy", kind=trace.SpanKind.SERVER):
        async with queue.transaction() as txn:
            await txn.enqueue(Order())
    await queue.close()


if __name__ == "__main__":
    try:
        task.react(_buy)
    finally:
        _provider.shutdown()
