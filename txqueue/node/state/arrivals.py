"""What has arrived: assignments that messages brought, so that each runs once; and the node's
meters.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from attrs import define, field

from txqueue.model.assignment import place_of
from txqueue.model.run_log import STATEMENT_BOUNDS, WAIT_BOUNDS, Histogram, RunTally

BLOCK = 1024
"""How many consecutive assignments a block stands for, with the number of each that arrived."""
REMEMBERED = 256
"""How many blocks are kept, 2 MB: the cluster's last quarter of a million assignments."""
_EMPTY = array("q", [-1]) * BLOCK


class Deduplicator:
    """The numbers of the latest assignments that have arrived."""

    def __init__(self) -> None:
        self._blocks: dict[int, array[int]] = {}

    def accept(self, assignment: int) -> bool:
        """Note that an assignment arrived; return whether it is new."""
        block, place = divmod(place_of(assignment), BLOCK)
        arrived = self._blocks.get(block)
        if arrived is None:
            arrived = self._blocks[block] = _EMPTY[:]
            if len(self._blocks) > REMEMBERED:
                del self._blocks[next(iter(self._blocks))]
        # The whole number: a restored database may use a place again.
        if arrived[place] == assignment:
            return False
        arrived[place] = assignment
        return True


# Of more pairs of queue and work type the later ones count together, without names.
_MOST_WAITS = 1000


# How many of the last statements tell how long a commit takes.
_TIMED = 8


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
        waits: How long done jobs waited until their start, in seconds, by queue and work type; each
            minute is counted by the node that noted it.
        worker_deaths: How many worker processes ended without being told to.
        workers_replaced: How many workers were replaced by the limit that each had reached.
        rescues: How many jobs of dead nodes the node returned to the queue, by the reason:
            ``expired`` leases, or masters of this host that have ``ended``.
        tokens_lost: How many jobs ended whose outcome changed nothing: they were assigned anew
            by then, or an earlier statement had written it although its answer was lost.
        commits: How long the last short statements took that commit, in seconds.
    """

    tally: RunTally = field(factory=RunTally)
    claimed: int = 0
    claims: Histogram = field(factory=_statements)
    completions: Histogram = field(factory=_statements)
    waits: dict[tuple[str, str], Histogram] = field(factory=dict)
    worker_deaths: int = 0
    workers_replaced: Counter[str] = field(factory=Counter)
    rescues: Counter[str] = field(factory=Counter)
    tokens_lost: int = 0
    commits: deque[float] = field(factory=lambda: deque(maxlen=_TIMED))

    @property
    def commit_time(self) -> float | None:
        """About how many seconds a commit takes; None while none was timed."""
        return min(self.commits, default=None)

    def add_waits(self, counted: Iterable[tuple[Any, ...]]) -> None:
        """Add the waits of a minute; see `StoredFunctions.measure_minute`."""
        for queue, work_type, counts, total in counted:
            is_kept = (queue, work_type) in self.waits or len(self.waits) < _MOST_WAITS
            key = (queue, work_type) if is_kept else ("", "")
            self.waits.setdefault(key, Histogram(WAIT_BOUNDS)).add(counts, total)
