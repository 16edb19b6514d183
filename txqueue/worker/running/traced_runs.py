"""Runs of jobs as spans of a trace, if the application has set up OpenTelemetry; and their end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from attrs import evolve

from txqueue.model.foreign import looked
from txqueue.model.run_log import log_of
from txqueue.model.work_item import WorkItem
from txqueue.tracing.choice import begin_run, is_tracing
from txqueue.worker.handlers.running_job import RunningJob, change
from txqueue.worker.handlers.runtimes import Kind

__all__ = ["end_records", "traced", "within_span"]


def traced(kind: Kind) -> Kind:
    """Return a work type whose runs have spans; unchanged if the application has no tracer."""
    return evolve(kind, begin=partial(_begin_traced, kind.begin)) if is_tracing() else kind


def _begin_traced(begin: Callable[[WorkItem, Any], Any], work: WorkItem, job: RunningJob) -> Any:
    change(job, span=begin_run(job.work_type, job.id, job.attempt, job.terms))
    if job.span is None:
        return begin(work, job)
    log_of(job).fields.update(job.span.ids)
    with job.span.current():
        return begin(work, job)


def end_records(job: RunningJob, outcome: str) -> None:
    """End the log and the span of a run, if it has them: most runs have none."""
    if job.log is not None:
        # What a run has printed is written by the application's logging.
        looked(job.log.end, None)
    if job.span is not None:
        job.span.end(outcome)


def within_span(job: RunningJob) -> AbstractContextManager[None]:
    """Make the run's span, if it has one, the parent of what is enqueued inside the block."""
    return nullcontext() if job.span is None else job.span.current()
