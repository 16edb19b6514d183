"""What a node has counted and timed since its start, for metrics."""

from __future__ import annotations

from collections import Counter

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
        rescues: How many jobs of dead nodes the node returned to the queue, by the reason:
            ``expired`` leases, or masters of this host that have ``ended``.
        tokens_lost: How many jobs ended whose outcome changed nothing: they were assigned anew
            by then, or an earlier statement had written it although its answer was lost.
    """

    tally: RunTally = field(factory=RunTally)
    claimed: int = 0
    claims: Histogram = field(factory=_statements)
    completions: Histogram = field(factory=_statements)
    worker_deaths: int = 0
    rescues: Counter[str] = field(factory=Counter)
    tokens_lost: int = 0
