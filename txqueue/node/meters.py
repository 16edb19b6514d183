"""What a node has counted and timed since its start, for metrics."""

from __future__ import annotations

from attrs import define, field

from txqueue.model.run_tally import STATEMENT_BOUNDS, Histogram, RunTally

__all__ = ["Meters"]


def _statements() -> Histogram:
    return Histogram(STATEMENT_BOUNDS)


@define
class Meters:
    """Counters that services write and metrics read; they call no service.

    Attributes:
        tally: What the jobs of all workers did.
        claimed: How many jobs claims have taken.
        claims: How long claims took, in seconds.
        completions: How long statements took that write done jobs, in seconds.
        worker_deaths: How many worker processes ended without being told to.
    """

    tally: RunTally = field(factory=RunTally)
    claimed: int = 0
    claims: Histogram = field(factory=_statements)
    completions: Histogram = field(factory=_statements)
    worker_deaths: int = 0
