"""``bench decay``: measures whether a queue gets slower when drained again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from statistics import median
from typing import Any

from txqueue.demo.environment import Pace, Stages, TemporarySchema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.inquiries.reader import Session
from txqueue_bench.work import Counted

__all__ = ["decay", "typical"]

APP = "txqueue_bench.work"
SNAPSHOT = "isolation level repeatable read, read only"


def decay(
    target: TemporarySchema,
    stages: Stages,
    jobs: int,
    waves: int,
    workers: int,
    *,
    held_snapshot: bool,
    title: str = "",
) -> dict[str, Any]:
    """Measure one round: enqueue and drain one wave of jobs after another with one node.

    Each wave is enqueued in one transaction, so that all its jobs become visible together, and is
    timed from that commit to its last completion. A wave that is not counted comes first.

    Args:
        target: The schema to measure in.
        stages: Shows the progress.
        jobs: How many jobs each wave has.
        waves: How many waves are counted.
        workers: How many worker processes the node has.
        held_snapshot: Whether another connection holds a snapshot during the whole round, so that
            vacuum cannot remove dead rows.
        title: The prefix of the stages' names.

    Returns:
        The result of the round, as `typical` takes it; the speed of each wave is in jobs per
        second.
    """
    with target.session() as session, _snapshot(target, is_held=held_snapshot):
        publish(session, Counted)
        with RunningNode(target, APP, workers) as node:
            _wave(session, node, stages, jobs, f"{title}warming up")
            took = [
                _wave(session, node, stages, jobs, f"{title}wave {number} of {waves}")
                for number in range(1, waves + 1)
            ]
    speeds = [round(jobs / seconds) for seconds in took]
    return {
        "workload": "decay",
        "jobs": jobs * waves,
        "seconds": round(sum(took), 3),
        "workers": workers,
        "waves": speeds,
        "held_snapshot": held_snapshot,
        **target.facts(),
    }


def typical(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combine the results of several rounds: the median speed of each wave.

    Of a single wave, which takes half a second, other load on the host changes the speed more than
    a queue that gets slower.

    Args:
        rounds: The results of `decay`, for the same waves.

    Returns:
        The document that ``--json`` prints.
    """
    waves = [
        round(median(speeds))
        for speeds in zip(*(result["waves"] for result in rounds), strict=True)
    ]
    return {
        **rounds[0],
        "jobs": sum(result["jobs"] for result in rounds),
        "seconds": round(sum(result["seconds"] for result in rounds), 3),
        "rounds": len(rounds),
        "waves": waves,
        "ratio": round(waves[-1] / waves[0], 3),
    }


def _wave(session: Session, node: RunningNode, stages: Stages, jobs: int, name: str) -> float:
    ids = enqueue_all(
        session, map(Counted, range(1, jobs + 1)), stages.begin(f"{name}: enqueuing", jobs)
    )
    committed: datetime = session.value("select clock_timestamp()")
    advance = stages.begin(f"{name}: performing", jobs)
    wait_until_done(session, node, jobs, advance, Pace(share=0.01))
    last: datetime = session.value(
        f"select max(finished_at) from {session.schema}.job"
        " where state = 'done' and job_id between %s and %s",
        (ids[0], ids[-1]),
    )
    return (last - committed).total_seconds()


@contextmanager
def _snapshot(target: TemporarySchema, *, is_held: bool) -> Iterator[None]:
    if not is_held:
        yield
        return
    with target.session() as session, session.transaction(SNAPSHOT):
        # The first statement of the transaction takes the snapshot; the server must not end the
        # session, which is idle afterwards.
        session.rows("set local idle_in_transaction_session_timeout = 0")
        session.rows(f"select from {session.schema}.setting")
        yield
