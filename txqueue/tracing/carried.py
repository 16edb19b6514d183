"""The trace in which a job was enqueued, as its options carry it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from txqueue.model.enqueue_options import is_traceparent

__all__ = ["LATE", "TRACED_AT", "CarriedTrace"]

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
