"""``bench latency``: how soon a job starts that a foreign client enqueues on an idle node."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from typing import Any

from txqueue.bench.ground import Ground
from txqueue.bench.node import RunningNode
from txqueue.bench.stages import Advance, Stages
from txqueue.bench.tally import noted
from txqueue.bench.traffic import publish, wait_until_done
from txqueue.bench.work import Timed
from txqueue.store.reading import Session

__all__ = ["latency", "percentile"]

APP = "txqueue.bench.work"
WARM_UP = 20
EVERY = 0.02


def latency(ground: Ground, stages: Stages, jobs: int, workers: int) -> dict[str, Any]:
    """Enqueue one job every 20 ms with plain SQL, and measure until its handler's first line.

    Both ends read the same host's monotonic clock: the client just before its statement, whose
    commit is thus part of the time.

    Args:
        ground: Where.
        stages: Told how far it is.
        jobs: How many; 20 before them only warm up.
        workers: How many worker processes.

    Returns:
        The document that ``--json`` prints.
    """
    with ground.session() as session:
        publish(session, Timed)
        with RunningNode(ground, APP, workers) as node:
            _send(session, WARM_UP, stages.begin("warming up", WARM_UP), is_timed=False)
            wait_until_done(session, node, WARM_UP, lambda _: None)
            began = time.monotonic()
            _send(session, jobs, stages.begin("one every 20 ms", jobs), is_timed=True)
            seconds = time.monotonic() - began
            wait_until_done(session, node, jobs, lambda _: None)
    took = sorted(noted(ground.folder))
    return {
        "workload": "latency",
        "jobs": jobs,
        "seconds": round(seconds, 3),
        "workers": workers,
        **{f"p{part}_ms": _ms(percentile(took, part)) for part in (50, 95, 99)},
        "max_ms": _ms(took[-1] if took else 0),
        "started": len(took),
        **ground.facts(),
    }


def _send(session: Session, jobs: int, advance: Advance, *, is_timed: bool) -> None:
    statement = f"select {session.schema}.enqueue(%s, %s)"
    due = time.monotonic()
    for number in range(1, jobs + 1):
        time.sleep(max(due - time.monotonic(), 0))
        due += EVERY
        sent_at = time.clock_gettime_ns(time.CLOCK_MONOTONIC) if is_timed else 0
        session.rows(statement, (Timed.work_type, json.dumps({"sent_at": sent_at})))
        advance(number)


def percentile(ordered: Sequence[int], part: int) -> int:
    """Return the smallest of some ordered numbers that so many hundredths of them do not exceed."""
    return ordered[math.ceil(len(ordered) * part / 100) - 1] if ordered else 0


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
