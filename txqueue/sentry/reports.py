"""What Sentry gets: an issue for each job that has failed for good, the spans of calls that enqueue
and of runs, and check-ins of schedules; never the data of a job.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from hashlib import md5
from typing import Any, Final

import sentry_sdk
from attrs import define
from sentry_sdk.crons import MonitorStatus, capture_checkin
from sentry_sdk.scope import Scope, use_isolation_scope, use_scope
from sentry_sdk.utils import event_from_exception

from txqueue.model.directives import FailedAttempt
from txqueue.model.schedule import Cron, Every, Schedule
from txqueue.model.work_item import WorkItem, find_work_type
from txqueue.sentry.error_kinds import fingerprint
from txqueue.tracing.choice import CarriedTrace, Sending, harmless

# Names of Sentry's conventions for queues,
# https://docs.sentry.io/platforms/python/tracing/instrumentation/custom-instrumentation/queues-module/
_PUBLISH, _TASK, _PROCESS = "queue.publish", "queue.task.txqueue", "queue.process"
_MESSAGE, _DESTINATION = "messaging.message.id", "messaging.destination.name"
_LATENCY, _RETRIES = "messaging.message.receive.latency", "messaging.message.retry.count"
_ORIGIN: Final = "auto.queue.txqueue"
_ERROR: Final = "internal_error"
# Of how many jobs the failed attempts are remembered, and how many of each.
_MOST_JOBS, _MOST_ATTEMPTS = 1000, 20
_LONGEST_SLUG: Final = 50
_CHECK_INS: Final = {
    "done": MonitorStatus.OK,
    "failed": MonitorStatus.ERROR,
    "cancelled": MonitorStatus.ERROR,
}


@define(eq=False)
class PublishSpan(Sending):
    """The span of one call that enqueues: it has the type of the first work item."""

    _span: Any

    def enqueued(self, *job_ids: int) -> None:
        """Note the first job that was enqueued."""
        with harmless():
            self._span.set_data(_MESSAGE, ", ".join(map(str, job_ids[:1])))

    def failed(self, error: BaseException) -> None:  # noqa: ARG002 - the job is reported
        """Mark the call as failed."""
        self._span.set_status(_ERROR)

    def end(self) -> None:
        """End it."""
        self._span.finish()


def _carried(span: Any) -> Mapping[str, Any]:
    """Return the options of jobs that continue the trace of a span.

    W3C's flag cannot say that the sender has not decided whether the trace is kept.
    """
    trace_id, span_id, *sampled = span.to_traceparent().split("-")
    parent = f"00-{trace_id}-{span_id}-{'01' if sampled == ['1'] else '00'}"
    return CarriedTrace(parent, sent_at=round(time.time(), 3)).options


def _headers(carried: CarriedTrace) -> dict[str, str]:
    """Return the header of Sentry that continues a trace."""
    _, trace_id, span_id, flags = carried.parent.split("-")[:4]
    # Without the flag the run's own rate decides whether the trace is kept.
    return {"sentry-trace": f"{trace_id}-{span_id}{'-1' * (int(flags, 16) & 1)}"}


@define(eq=False)
class Monitor:
    """The check-ins of a schedule for one job.

    Attributes:
        slug: The name of the monitor, of the characters that Sentry allows.
        check_in: The number of the check-in: the same in each attempt, whichever process runs it.
        config: When the schedule is due; None if only the monitor says so.
    """

    slug: str
    check_in: str
    config: Any

    @classmethod
    def of_run(cls, kind: type[WorkItem], job_id: int, terms: Any) -> Monitor | None:
        """Return the monitor of a job's schedule; None if the job has none."""
        name = terms.get("schedule") if isinstance(terms, dict) else None
        if not isinstance(name, str):
            return None
        slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower())[:_LONGEST_SLUG]
        run = f"{name} {terms.get('due')} {job_id}"
        check_in = md5(run.encode(), usedforsecurity=False).hexdigest()
        # A schedule that a class declares has its name; others are known to the database only.
        config = _monitor_config(kind.schedule) if name == kind.work_type else None
        return cls(slug, check_in, config)

    def tell(self, status: str) -> None:
        """Send the state of the run."""
        capture_checkin(self.slug, self.check_in, status, monitor_config=self.config)


def _monitor_config(when: Schedule | None) -> Any:
    """Return when a schedule is due, as Sentry has it; None for what Sentry cannot say."""
    if isinstance(when, Cron):
        return {"schedule": {"type": "crontab", "value": when.expression}, "timezone": when.tz}
    if isinstance(when, Every) and when.seconds % 60 == 0:
        minutes = int(when.seconds // 60)
        return {"schedule": {"type": "interval", "value": minutes, "unit": "minute"}}
    return None


@define(eq=False)
class ProcessSpan:
    """The span of one run, with the scopes in which its handler runs.

    Attributes:
        job_id: The job's number.
        ids: The numbers of the trace and of the span, as log lines have them.
    """

    job_id: int
    _isolation: Scope
    _scope: Scope
    _transaction: Any
    _span: Any
    _monitor: Monitor | None
    _reports: Reports

    @property
    def ids(self) -> dict[str, str]:
        """The numbers of its trace and of itself."""
        return {"trace_id": self._span.trace_id, "span_id": self._span.span_id}

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it the current span of what starts inside the block."""
        with use_isolation_scope(self._isolation), use_scope(self._scope):
            yield

    def failed(self, error: BaseException, *, is_hidden: bool = False) -> None:  # noqa: ARG002
        """Mark the run as failed; the error is reported once the job has failed for good."""
        for span in (self._span, self._transaction):
            span.set_status(_ERROR)

    def end(self, outcome: str) -> None:
        """End it with the outcome of the run."""
        with harmless(), self.current():
            self._span.finish()
            self._transaction.finish()
            if self._monitor is not None and outcome in _CHECK_INS:
                self._monitor.tell(_CHECK_INS[outcome])
        self._reports.last = self


class Reports:
    """Reports the jobs of one process.

    Attributes:
        last: The run that has ended last: its failure is noted right after.
    """

    def __init__(self) -> None:
        self.last: ProcessSpan | None = None
        self._attempts: dict[int, deque[dict[str, Any]]] = {}

    def begin_call(self, work: object, options: Mapping[str, Any]) -> PublishSpan:
        """Start the span of a call that enqueues."""
        name = str(getattr(work, "work_type", None))
        span = sentry_sdk.start_span(op=_PUBLISH, name=name, origin=_ORIGIN)
        span.set_data(_DESTINATION, options.get("queue") or getattr(work, "queue", None))
        is_own = options.get("traceparent") is None
        return PublishSpan({**options, **_carried(span)} if is_own else options, span)

    def begin_run(self, work_type: str, job_id: int, attempt: int, terms: Any) -> ProcessSpan:
        """Start the span of a run; see `Source.begin_run`."""
        isolation, scope = Scope.get_isolation_scope().fork(), Scope.get_current_scope().fork()
        isolation.clear_breadcrumbs()
        isolation.add_event_processor(without_data)
        of_job = {"job_id": job_id, "work_type": work_type, "attempt": attempt}
        isolation.set_tags(_tags(of_job))
        now, carried = time.time(), CarriedTrace.of_terms(terms)
        is_continued = carried is not None and carried.is_continued(attempt, now)
        kind = find_work_type(work_type)
        # The run does not know another queue that its job was given.
        data = {_MESSAGE: str(job_id), _RETRIES: attempt - 1, _DESTINATION: kind.queue}
        if carried is not None and is_continued and carried.sent_at is not None:
            data[_LATENCY] = max(0, round(1000 * (now - carried.sent_at)))
        with use_isolation_scope(isolation), use_scope(scope):
            transaction = sentry_sdk.start_transaction(
                sentry_sdk.continue_trace(
                    _headers(carried) if carried is not None and is_continued else {},
                    op=_TASK,
                    name=work_type,
                    source="task",
                    origin=_ORIGIN,
                )
            )
            span = transaction.start_child(op=_PROCESS, name=work_type, origin=_ORIGIN)
            span.update_data(data)
            scope.span = span
            monitor = Monitor.of_run(kind, job_id, terms)
            if monitor is not None:
                monitor.tell(MonitorStatus.IN_PROGRESS)
        return ProcessSpan(job_id, isolation, scope, transaction, span, monitor, self)

    def note(self, failed: FailedAttempt) -> None:
        """Report a job that has failed for good; remember an attempt that is repeated."""
        if not failed.is_final:
            self._remember(failed)
            return
        run, self.last = self.last, None
        is_its = run is not None and run.job_id == failed.job_id
        place: AbstractContextManager[Any] = (
            run.current() if run is not None and is_its else sentry_sdk.isolation_scope()
        )
        with place:
            scope = Scope.get_isolation_scope()
            if failed.redacted or not is_its:
                # What the handler has logged may quote the data; else it is about other jobs.
                scope.clear_breadcrumbs()
            for crumb in self._attempts.pop(failed.job_id, ()):
                scope.add_breadcrumb(crumb)
            options = sentry_sdk.get_client().options
            mechanism = {"type": "txqueue", "handled": False}
            event, hint = event_from_exception(failed.error, options, mechanism)
            event |= _about(failed)
            sentry_sdk.capture_event(without_data(event, hint), hint)

    def _remember(self, failed: FailedAttempt) -> None:
        crumbs = self._attempts.setdefault(failed.job_id, deque(maxlen=_MOST_ATTEMPTS))
        said = type(failed.error).__qualname__ if failed.redacted else failed.text.split("\n")[0]
        crumbs.append(
            {
                "category": "txqueue.retry",
                "level": "warning",
                "timestamp": datetime.now(UTC),
                "message": f"attempt {failed.attempt} of job {failed.job_id} failed: {said}",
            }
        )
        if len(self._attempts) > _MOST_JOBS:
            del self._attempts[next(iter(self._attempts))]


REPORTS: Final = Reports()
"""The reports of this process."""


def _tags(of_job: Mapping[str, object]) -> dict[str, str]:
    return {f"txqueue.{name}": str(value) for name, value in of_job.items()}


def _about(failed: FailedAttempt) -> Any:
    """Return the members of an event that say which job has failed, and by which kind of error."""
    kind = fingerprint(failed.text)
    of_job = {"job_id": failed.job_id, "work_type": failed.work_type, "attempt": failed.attempt}
    return {
        "fingerprint": ["txqueue", kind],
        "tags": {**_tags(of_job), "txqueue.fingerprint": kind},
        "contexts": {"txqueue": {**of_job, "attempts": failed.attempts}},
        "transaction": failed.work_type,
        "extra": {"is_redacted": True} if failed.redacted else {},
    }


def without_data(event: Any, _: Any) -> Any:
    """Return an event without the variables of its frames; of redacted work, without what is said.

    They hold the payload.
    """
    for error in (event.get("exception") or {}).get("values", ()):
        for frame in (error.get("stacktrace") or {}).get("frames", ()):
            frame.pop("vars", None)
        if (event.get("extra") or {}).get("is_redacted"):
            error["value"] = "redacted"
    return event
