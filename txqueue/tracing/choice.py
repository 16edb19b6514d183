"""Whether there are traces: only if the application itself has set up OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from txqueue.tracing.sending import Sending, Untraced
from txqueue.tracing.trouble import harmless

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from txqueue.tracing.spans import RunSpan

__all__ = ["begin_run", "is_tracing", "sending"]


def sending(work: object, options: Mapping[str, Any]) -> AbstractContextManager[Sending]:
    """Trace a call that enqueues.

    Args:
        work: The work item, or the first one; anything else is refused within the context.
        options: Its options.

    Returns:
        A context manager, whose value has the options for the jobs.
    """
    active_tracer = _tracer()
    if active_tracer is None:
        return nullcontext(Untraced(options))
    from txqueue.tracing.spans import SendSpan

    return SendSpan.started(active_tracer, str(getattr(work, "work_type", None)), options)


def is_tracing() -> bool:
    """Tell whether the application has set up OpenTelemetry."""
    return _tracer() is not None


def begin_run(work_type: str, job_id: int, attempt: int, terms: Any) -> RunSpan | None:
    """Start the span of a run; None without a tracer. See `RunSpan.started`."""
    active_tracer = _tracer()
    if active_tracer is None:
        return None
    from txqueue.tracing.spans import RunSpan

    with harmless():
        return RunSpan.started(
            tracer=active_tracer, work_type=work_type, job_id=job_id, attempt=attempt, terms=terms
        )
    return None


def _tracer() -> Tracer | None:
    # An application with a tracer has imported this module; others do not pay for the import.
    if "opentelemetry.trace" not in sys.modules:
        return None
    from txqueue.tracing.spans import tracer

    return tracer()
