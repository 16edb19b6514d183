"""Whether there are traces: if the application itself has set up OpenTelemetry, or has installed
another source of them; its errors are logged now and then, and never an error of the queue; the
trace that a job's options carry.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Protocol

from attrs import define, frozen

from txqueue.model.enqueue_options import is_traceparent
from txqueue.model.work_item import WorkItem


@define(eq=False)
class Sending:
    """A call that enqueues, while it runs; by itself one without a trace.

    Attributes:
        options: The options for its jobs.
    """

    options: Mapping[str, Any]

    def watch(self, works: Iterator[WorkItem]) -> Iterator[WorkItem]:
        """Note the work types of work items as they pass."""
        return works

    def enqueued(self, *job_ids: int) -> None:
        """Note the jobs that were enqueued."""

    def failed(self, error: BaseException) -> None:
        """Note the error that leaves the call."""

    def end(self) -> None:
        """End it."""


class Run(Protocol):
    """A run of a job in a trace."""

    @property
    def ids(self) -> dict[str, str]:
        """The numbers of its trace and of itself, as log lines have them."""

    def current(self) -> AbstractContextManager[None]:
        """Make it the current span of what starts inside the block."""

    def failed(self, error: BaseException, *, is_hidden: bool = False) -> None:
        """Record the error that failed the attempt; only its class, if its text is hidden."""

    def end(self, outcome: str) -> None:
        """End it with the outcome of the run."""


class Source(Protocol):
    """Makes traces: OpenTelemetry, or what the application has installed."""

    def begin_call(self, work: object, options: Mapping[str, Any]) -> Sending:
        """Start the span of a call that enqueues.

        It is not made the current span: the block of a coroutine may end in another context.
        """

    def begin_run(self, work_type: str, job_id: int, attempt: int, terms: Any) -> Run:
        """Start the span of a run.

        An error of the application's tracer is raised.

        Args:
            work_type: The job's work type.
            job_id: The job's number.
            attempt: The number of the run, from 1.
            terms: The job's terms.
        """


_sources: list[Source] = []


def trace_with(source: Source) -> None:
    """Have a source trace calls that enqueue, unless OpenTelemetry does, and all runs."""
    if source not in _sources:
        _sources.append(source)


EVERY = 60.0
"""Seconds between two lines about such errors."""


class Complaints:
    """Logs an error, at most one in a while."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")

    def note(self) -> None:
        """Log the error that is being handled."""
        if time.monotonic() - self._logged_at >= EVERY:
            self._logged_at = time.monotonic()
            _log_failure("the tracer of the application failed; the jobs go on without it")


def _log_failure(text: str) -> None:
    # An application that only enqueues, by an adapter, has not imported Twisted.
    if "twisted.logger" not in sys.modules:
        import logging

        logging.getLogger(__name__).exception(text)
        return
    from twisted.logger import Logger

    Logger(__name__).failure(text)


complaints = Complaints()


@contextmanager
def harmless() -> Iterator[None]:
    """Keep an error of the block from the caller: a span must not change the outcome of a job."""
    try:
        yield
    except BaseException:
        complaints.note()


TRACED_AT = "traced_at"
"""The member of a job's options that says when it was enqueued; only tracing sets it."""

LATE = 600.0
"""Seconds after which a run belongs to a trace of its own, with a link to the sender's."""


@frozen
class CarriedTrace:
    """The trace of the code that enqueued a job.

    Attributes:
        parent: The sender's span, as W3C Trace Context writes it in ``traceparent``.
        state: The vendors' part, as in ``tracestate``; empty for none.
        sent_at: When the job was enqueued, in seconds since 1970; None if its sender did not say.
    """

    parent: str
    state: str = ""
    sent_at: float | None = None

    @classmethod
    def of_terms(cls, terms: Any) -> CarriedTrace | None:
        """Read a job's terms; None without a trace, as other clients may put anything there."""
        if not isinstance(terms, Mapping) or not is_traceparent(terms.get("traceparent")):
            return None
        state = terms.get("tracestate", "")
        return cls(
            terms["traceparent"],
            state if isinstance(state, str) else "",
            _moment(terms.get(TRACED_AT)),
        )

    @property
    def options(self) -> dict[str, Any]:
        """The options of a job that carries it."""
        state = {"tracestate": self.state} if self.state else {}
        send_time = {} if self.sent_at is None else {TRACED_AT: self.sent_at}
        return {"traceparent": self.parent, **state, **send_time}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of W3C Trace Context that say the same."""
        return {"traceparent": self.parent, **({"tracestate": self.state} if self.state else {})}

    def is_continued(self, attempt: int, now: float) -> bool:
        """Tell whether a run continues the sender's trace; other runs link to it.

        A trace is shown as a whole, so a retry or a run hours later would stretch it out of shape.

        Args:
            attempt: The number of the run, from 1.
            now: The present moment, in seconds since 1970.
        """
        return attempt == 1 and (self.sent_at is None or now - self.sent_at <= LATE)


def _moment(value: object) -> float | None:
    """Return a number as seconds; None for anything else, and for one that is too large."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def sending(work: object, options: Mapping[str, Any]) -> AbstractContextManager[Sending]:
    """Trace a call that enqueues, by OpenTelemetry or else the first source that is installed.

    Args:
        work: The work item, or the first one; anything else is refused within the context.
        options: Its options.

    Returns:
        A context manager, whose value has the options for the jobs.
    """
    sources = _active()
    return _traced(sources[0], work, options) if sources else nullcontext(Sending(options))


@contextmanager
def _traced(source: Source, work: object, options: Mapping[str, Any]) -> Iterator[Sending]:
    """Trace a call until the block ends, with an error that leaves it."""
    call = Sending(options)
    with harmless():
        call = source.begin_call(work, options)
    try:
        yield call
    except Exception as error:
        with harmless():
            call.failed(error)
        raise
    finally:
        with harmless():
            call.end()


def is_tracing() -> bool:
    """Tell whether the application has set up OpenTelemetry, or installed another source."""
    return bool(_active())


@frozen
class _Together:
    """One run in several traces."""

    _runs: tuple[Run, ...]

    @property
    def ids(self) -> dict[str, str]:
        return self._runs[0].ids

    @contextmanager
    def current(self) -> Iterator[None]:
        with ExitStack() as entered:
            for run in self._runs:
                entered.enter_context(run.current())
            yield

    def failed(self, error: BaseException, *, is_hidden: bool = False) -> None:
        for run in self._runs:
            run.failed(error, is_hidden=is_hidden)

    def end(self, outcome: str) -> None:
        for run in self._runs:
            run.end(outcome)


def begin_run(work_type: str, job_id: int, attempt: int, terms: Any) -> Run | None:
    """Start the spans of a run; None if nothing traces it. See `Source.begin_run`."""
    runs: list[Run] = []
    for source in _active():
        with harmless():
            runs.append(source.begin_run(work_type, job_id, attempt, terms))
    return _Together(tuple(runs)) if len(runs) > 1 else next(iter(runs), None)


def _active() -> list[Source]:
    # An application with a tracer has imported this module; others do not pay for the import.
    if "opentelemetry.trace" not in sys.modules:
        return _sources
    from txqueue.tracing.spans import application_spans

    own = application_spans()
    return _sources if own is None else [own, *_sources]
