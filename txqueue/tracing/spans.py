"""Spans of OpenTelemetry: one for each call that enqueues, one for each run of a job.

Only `choice` imports this module, once the application has imported OpenTelemetry.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from attrs import frozen
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from txqueue.model.work_item import WorkItem
from txqueue.tracing.choice import CarriedTrace, Sending, harmless

# Names of the semantic conventions for messaging spans,
# https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/, and txqueue's own.
SCOPE = "txqueue"
SEND, PROCESS = "send", "process"

SYSTEM, SYSTEM_NAME = "messaging.system", "txqueue"
OPERATION, OPERATION_TYPE = "messaging.operation.name", "messaging.operation.type"
QUEUE = "messaging.destination.name"
JOB_ID = "messaging.message.id"
BATCH_SIZE = "messaging.batch.message_count"
ERROR_TYPE = "error.type"

WORK_TYPE, ATTEMPT, OUTCOME = "txqueue.work_type", "txqueue.attempt", "txqueue.outcome"
WORK_TYPES, SEVERAL = "txqueue.work_types", "several work types"


def span_name(operation: str, work_type: str) -> str:
    """Return the name of a span, such as ``process shop.SendReceipt``."""
    return f"{operation} {work_type}"


_W3C = TraceContextTextMapPropagator()


def application_spans() -> Spans | None:
    """Return what makes spans for the application; None if it has not set up OpenTelemetry."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return _spans_of(provider)


@lru_cache(maxsize=1)
def _spans_of(provider: TracerProvider) -> Spans:
    return Spans(provider.get_tracer(SCOPE))


@frozen
class Spans:
    """Makes spans by the tracer of the application; see `Source`."""

    _tracer: Tracer

    def begin_call(self, work: object, options: Mapping[str, Any]) -> SendSpan:
        """Start the span of a call that enqueues."""
        work_type = str(getattr(work, "work_type", None))
        attributes = _attributes(SEND, work_type)
        if isinstance(queue := options.get("queue"), str):
            attributes[QUEUE] = queue
        name = span_name(SEND, work_type)
        span = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=attributes)
        return SendSpan(span, options)

    def begin_run(self, work_type: str, job_id: int, attempt: int, terms: Any) -> RunSpan:
        """Start a child of the span that enqueued the job, or a span of its own trace."""
        parent, links = _origin(CarriedTrace.of_terms(terms), attempt)
        attributes = _attributes(PROCESS, work_type)
        span = self._tracer.start_span(
            span_name(PROCESS, work_type),
            parent,
            SpanKind.CONSUMER,
            {**attributes, JOB_ID: str(job_id), ATTEMPT: attempt},
            links,
        )
        return RunSpan(span)


def _attributes(operation: str, work_type: str) -> dict[str, str | int]:
    return {
        SYSTEM: SYSTEM_NAME,
        OPERATION: operation,
        OPERATION_TYPE: operation,
        WORK_TYPE: work_type,
    }


class SendSpan(Sending):
    """The span of one call that enqueues.

    Args:
        span: The span.
        options: The options of the call.

    Attributes:
        options: The same, with the trace for the call's jobs; one that the caller gave stays.
    """

    def __init__(self, span: Span, options: Mapping[str, Any]) -> None:
        self._span = span
        self._work_types: set[str] = set()
        is_given = options.get("traceparent") is not None
        super().__init__(options if is_given else {**options, **_carried_by(span)})

    def watch(self, works: Iterator[WorkItem]) -> Iterator[WorkItem]:
        """Note the work types of work items as they pass."""
        for work in works:
            self._work_types.add(str(getattr(work, "work_type", None)))
            yield work

    def enqueued(self, *job_ids: int) -> None:
        """Note the jobs that were enqueued."""
        with harmless():
            if len(job_ids) == 1:
                self._span.set_attribute(JOB_ID, str(job_ids[0]))
            else:
                self._span.set_attribute(BATCH_SIZE, len(job_ids))
            if len(self._work_types) > 1:
                self._span.update_name(span_name(SEND, SEVERAL))
                self._span.set_attribute(WORK_TYPES, sorted(self._work_types))

    def failed(self, error: BaseException) -> None:
        """Record the error that leaves the call."""
        _note_error(self._span, error)

    def end(self) -> None:
        """End it."""
        self._span.end()


def _carried_by(span: Span) -> dict[str, Any]:
    """Return the options of jobs that a span sends."""
    headers: dict[str, str] = {}
    _W3C.inject(headers, trace.set_span_in_context(span))
    if "traceparent" not in headers:
        return {}
    state = headers.get("tracestate", "")
    return CarriedTrace(headers["traceparent"], state, round(time.time(), 3)).options


@frozen
class RunSpan:
    """The span of one run of a job."""

    _span: Span

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it the current span of what starts inside the block."""
        token = attach(trace.set_span_in_context(self._span))
        try:
            yield
        finally:
            detach(token)

    @property
    def ids(self) -> dict[str, str]:
        """The numbers of its trace and of itself, as log lines have them."""
        context = self._span.get_span_context()
        return {
            "trace_id": trace.format_trace_id(context.trace_id),
            "span_id": trace.format_span_id(context.span_id),
        }

    def failed(self, error: BaseException, *, is_hidden: bool = False) -> None:
        """Record the error that failed the attempt; only its class, if its text is hidden."""
        with harmless():
            _note_error(self._span, error, is_hidden=is_hidden)

    def end(self, outcome: str) -> None:
        """End it with the outcome of the run."""
        with harmless():
            self._span.set_attribute(OUTCOME, outcome)
            self._span.end()


def _origin(carried: CarriedTrace | None, attempt: int) -> tuple[Context, list[Link]]:
    """Return the context in which a run starts, and its links."""
    if carried is None:
        return Context(), []
    sender = _W3C.extract(carried.headers, Context())
    if carried.is_continued(attempt, time.time()):
        return sender, []
    span = trace.get_current_span(sender).get_span_context()
    return Context(), [Link(span)] if span.is_valid else []


def _note_error(span: Span, error: BaseException, *, is_hidden: bool = False) -> None:
    name = type(error).__qualname__
    if not is_hidden:
        span.record_exception(error)
    span.set_status(StatusCode.ERROR, name)
    span.set_attribute(ERROR_TYPE, name)
