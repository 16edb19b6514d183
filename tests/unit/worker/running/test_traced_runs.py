"""Runs as spans of OpenTelemetry: their parents, links, outcomes and errors."""

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from twisted.internet.defer import Deferred

from tests.fixtures.leftovers import LoggedFailures
from tests.unit.worker.performing import Handled, Harness
from txqueue import Next, Retry, RunningJob, WorkItem
from txqueue.tracing import choice as trouble
from txqueue.tracing.choice import sending

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, SPAN = int("0af7651916cd43dd8448eb211c80319c", 16), int("b7ad6b7169203331", 16)


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """An application that traces; what it exports."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield kept
    provider.shutdown()


def performed(perform: Any, terms: Any = None, attempt: int = 1, attempts: int = 1) -> Harness:
    """Run one job to its end."""
    bench = Harness()
    with bench.handler(perform, retry=Retry(attempts=attempts)):
        bench.hand(5, Handled.entry(1, terms=terms, attempt=attempt))
        bench.turn()
    return bench


def span_of(exporter: InMemorySpanExporter) -> ReadableSpan:
    """The one span that has ended."""
    [span] = exporter.get_finished_spans()
    return span


def ids(span: Any) -> tuple[int, int]:
    """The numbers of a span's trace and of itself."""
    return span.context.trace_id, span.context.span_id


async def nothing(_: Any, job: RunningJob) -> None:
    """Do nothing."""


def test_the_first_run_is_a_child_of_the_sender(exporter: InMemorySpanExporter) -> None:
    """With the names that OpenTelemetry has for messages."""
    performed(nothing, {"traceparent": PARENT})
    span = span_of(exporter)
    assert span.name == "process performing.handled"
    assert span.kind is trace.SpanKind.CONSUMER
    assert span.context is not None
    assert span.parent is not None
    assert (span.context.trace_id, span.parent.span_id) == (TRACE, SPAN)
    assert span.attributes is not None
    assert dict(span.attributes) == {
        "messaging.system": "txqueue",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": "1",
        "txqueue.work_type": "performing.handled",
        "txqueue.attempt": 1,
        "txqueue.outcome": "done",
    }


def test_a_retry_is_a_trace_of_its_own_with_a_link(exporter: InMemorySpanExporter) -> None:
    """It may come hours later."""
    performed(nothing, {"traceparent": PARENT}, attempt=2)
    span = span_of(exporter)
    assert span.parent is None
    assert [ids(link) for link in span.links] == [(TRACE, SPAN)]


@pytest.mark.parametrize("terms", [None, {}, {"traceparent": 7}, {"traceparent": "00-no"}])
def test_a_job_without_a_trace_begins_one(exporter: InMemorySpanExporter, terms: Any) -> None:
    """Also one whose options are no trace."""
    performed(nothing, terms)
    span = span_of(exporter)
    assert span.parent is None
    assert not span.links


@pytest.mark.parametrize(("attempts", "outcome"), [(1, "failed"), (2, "retry")])
def test_an_error_is_recorded(exporter: InMemorySpanExporter, attempts: int, outcome: str) -> None:
    """With its class, its text and its traceback."""

    async def fails(_: Any, job: RunningJob) -> None:
        raise LookupError("no such order")

    performed(fails, attempts=attempts)
    span = span_of(exporter)
    assert not span.status.is_ok
    assert span.attributes is not None
    assert span.attributes["error.type"] == "LookupError"
    assert span.attributes["txqueue.outcome"] == outcome
    [event] = span.events
    assert event.attributes is not None
    assert event.attributes["exception.message"] == "no such order"


def test_the_error_of_redacted_work_is_not_told(exporter: InMemorySpanExporter) -> None:
    """It may quote the payload."""

    async def fails(_: Any, job: RunningJob) -> None:
        raise LookupError("card 4111")

    performed(fails, {"redacted": True})
    span = span_of(exporter)
    assert not span.events
    assert "card" not in span.to_json()
    assert "LookupError" in span.to_json()


def test_what_a_handler_does_is_within_its_span(exporter: InMemorySpanExporter) -> None:
    """Before and after it waits, beside another; nothing is outside of them."""
    bench, tracer = Harness(), trace.get_tracer_provider().get_tracer("shop")

    async def perform(_: Any, job: RunningJob) -> None:
        with tracer.start_as_current_span(f"before {job.id}"):
            await bench.wait(job)
            with tracer.start_as_current_span(f"after {job.id}"):
                """Of this job."""

    with bench.handler(perform, 5, Handled.entry(1), Handled.entry(2)):
        assert not trace.get_current_span().get_span_context().is_valid
        bench.end(2)
        bench.end(1)
    by_name = {span.name: span for span in exporter.get_finished_spans()}
    for job in (1, 2):
        before, after = by_name[f"before {job}"], by_name[f"after {job}"]
        assert after.parent == before.context
    runs = [span for span in exporter.get_finished_spans() if span.name.startswith("process")]
    assert sorted(ids(run) for run in runs) == sorted(
        (span.parent.trace_id, span.parent.span_id)
        for job in (1, 2)
        if (span := by_name[f"before {job}"]).parent is not None
    )


def test_log_lines_of_a_run_name_its_trace(exporter: InMemorySpanExporter) -> None:
    """So that a line leads to the trace, and back."""

    async def fails(_: Any, job: RunningJob) -> None:
        raise LookupError

    [fields] = performed(fails, {"traceparent": PARENT}).logged_runs
    assert fields is not None
    assert fields["trace_id"] == f"{TRACE:032x}"
    assert fields["span_id"] == f"{ids(span_of(exporter))[1]:016x}"


def test_the_next_stage_belongs_to_the_trace(exporter: InMemorySpanExporter) -> None:
    """It is sent by the run that says it."""

    async def goes_on(_: Any, job: RunningJob) -> Next:
        return Next(Handled())

    [settled] = performed(goes_on).settled
    send, process = sorted(exporter.get_finished_spans(), key=lambda span: span.name, reverse=True)
    assert send.name == "send performing.handled"
    assert send.parent == process.context
    carried = settled["stage"]["options"]["traceparent"]
    assert carried.split("-")[1:3] == [
        f"{part:0{size}x}" for part, size in zip(ids(send), (32, 16), strict=True)
    ]


def test_a_trace_that_the_caller_gives_is_kept(exporter: InMemorySpanExporter) -> None:
    """The call has a span all the same."""
    with sending("shop.Order", {"traceparent": PARENT, "queue": "mail"}) as call:
        assert call.options == {"traceparent": PARENT, "queue": "mail"}
        call.enqueued(7)
    span = span_of(exporter)
    assert span.kind is trace.SpanKind.PRODUCER
    assert span.attributes is not None
    assert span.attributes["messaging.message.id"] == "7"
    assert span.attributes["messaging.destination.name"] == "mail"


def test_without_a_tracer_nothing_changes() -> None:
    """OpenTelemetry's own placeholder is none."""
    given: dict[str, Any] = {"queue": "mail"}
    with sending("shop.Order", given) as call:
        assert call.options is given
        call.enqueued(7)


def test_a_job_that_is_stopped_ends_its_span(exporter: InMemorySpanExporter) -> None:
    """A worker that ends leaves no open spans."""
    bench = Harness()

    async def waits(_: Any, job: RunningJob) -> None:
        await Deferred()

    with bench.handler(waits, 5, Handled.entry(1)):
        assert not exporter.get_finished_spans()
        bench.performer.stop()
        bench.turn()
    assert span_of(exporter).end_time is not None


class Broken(SpanProcessor):
    """A part of an application's tracer that fails."""

    def __init__(self, when: str) -> None:
        self._when = when

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Fail."""
        if self._when == "start":
            raise ConnectionError("on start")

    def on_end(self, span: Any) -> None:
        """Fail."""
        if self._when == "end":
            raise ConnectionError("on end")


@pytest.mark.parametrize("when", ["start", "end"])
def test_a_tracer_that_fails_changes_nothing_for_jobs(
    monkeypatch: pytest.MonkeyPatch, logged_failures: LoggedFailures, when: str
) -> None:
    """Jobs are enqueued, run and end; one line says what is wrong."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Broken(when))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trouble, "complaints", trouble.Complaints())
    with sending("shop.Order", {}) as call:
        call.enqueued(7)
        assert ("traceparent" in call.options) is (when == "end")
    assert performed(nothing).finished == [(5, 3, [1], 1, 1)]

    async def fails(_: Any, job: RunningJob) -> None:
        raise LookupError

    assert [each["outcome"] for each in performed(fails).settled] == ["failed"]
    assert len(logged_failures.flush(ConnectionError)) == 1


def test_a_call_for_several_work_types_names_none(exporter: InMemorySpanExporter) -> None:
    """All are in an attribute."""

    @define
    class Other(WorkItem):
        work_type = "traced.other"

        def perform(self, job: Any) -> None:
            """Do nothing."""

    works: list[WorkItem] = [Handled(), Other(), Handled()]
    with sending(works[0].work_type, {}) as call:
        assert list(call.watch(iter(works))) == works
        call.enqueued(1, 2, 3)
    span = span_of(exporter)
    assert span.name == "send several work types"
    assert span.attributes is not None
    assert span.attributes["txqueue.work_types"] == ("performing.handled", "traced.other")
    assert span.attributes["messaging.batch.message_count"] == 3
