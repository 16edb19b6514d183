"""Whether there are traces: only if the application itself has set up OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from txqueue.tracing.spans import RunSpan

__all__ = ["Sending", "begin_run", "is_tracing", "sending"]


class Sending(Protocol):
    """A call that enqueues, while it runs."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options for its jobs."""

    def enqueued(self, *job_ids: int) -> None:
        """Note the jobs that were enqueued."""


@frozen
class _Untraced:
    """A call that enqueues without a trace."""

    options: Mapping[str, Any]

    def enqueued(self, *job_ids: int) -> None:
        """Note nothing."""


def sending(work_type: str, options: Mapping[str, Any]) -> AbstractContextManager[Sending]:
    """Trace a call that enqueues.

    Args:
        work_type: The work type of its jobs, or of the first one.
        options: Its options.

    Returns:
        A context manager, whose value has the options for the jobs.
    """
    its_tracer = _tracer()
    if its_tracer is None:
        return nullcontext(_Untraced(options))
    from txqueue.tracing.spans import SendSpan

    return SendSpan.started(its_tracer, work_type, options)


def is_tracing() -> bool:
    """Tell whether the application has set up OpenTelemetry."""
    return _tracer() is not None


def begin_run(work_type: str, job_id: int, attempt: int, terms: Any) -> RunSpan | None:
    """Start the span of a run; None without a tracer. See `RunSpan.started`."""
    its_tracer = _tracer()
    if its_tracer is None:
        return None
    from txqueue.tracing.spans import RunSpan

    return RunSpan.started(its_tracer, work_type, job_id, attempt, terms)


def _tracer() -> Tracer | None:
    # An application with a tracer has imported this module; others do not pay for the import.
    if "opentelemetry.trace" not in sys.modules:
        return None
    from txqueue.tracing.spans import tracer

    return tracer()
