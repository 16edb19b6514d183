"""How long a node lacks a worker that was killed, by the way in which its workers are started.

    python -m benchmarks.replacement [kills]

Runs a fresh embedded server. A node of two workers has a backlog of jobs that each block a worker
for 1 ms. Now and then one worker is killed: the time until another process runs its first job is
what a replacement takes under load. Then the only worker of a node is killed while a single job
waits: the time until that job is done.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import time
from itertools import repeat
from pathlib import Path
from typing import Any

from attrs import define
from rich.console import Console

from txqueue import WorkItem
from txqueue.demo.environment import Pace, TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.errors import TxqueueError
from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import workers_of
from txqueue_bench.tally import FOLDER_VARIABLE
from txqueue_bench.work import Counted

APP = "benchmarks.replacement"
STARTS = ("spawn", "fork")
WORKERS, KILLS = 2, 20
SECONDS = 0.001
# A worker must live for longer than five seconds, or its replacement waits.
REST = 5.5
LIMIT = 60.0


@define
class Blocks(WorkItem):
    """Blocks its worker, and notes when the process ran its first job."""

    work_type = "benchmarks.replacement.blocks"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Sleep, without letting others run."""
        note = _note_of(Path(os.environ[FOLDER_VARIABLE]), os.getpid())
        if not note.exists():
            note.touch()
        time.sleep(SECONDS)


def _note_of(folder: Path, worker: int) -> Path:
    return folder / f"ran-{worker}"


def under_load(target: TemporarySchema, start: str, kills: int) -> list[float]:
    """Return the seconds from the death of a worker to the first job of its successor."""
    with target.session() as session, _node(target, WORKERS, start) as node:
        publish(session, Blocks)
        backlog = round((kills + 2) * (REST + 1) * WORKERS / SECONDS)
        enqueue_all(session, repeat(Blocks(), backlog), lambda _: None)
        return [_replaced(target, node) for _ in range(kills)]


def _replaced(target: TemporarySchema, node: RunningNode) -> float:
    time.sleep(REST)
    known = _running(target, node)
    os.kill(random.choice(sorted(known)), signal.SIGKILL)
    began = time.monotonic()
    while not _running(target, node) - known:
        node.ensure_alive()
        if time.monotonic() > began + LIMIT:
            raise TxqueueError(f"no worker was replaced within {LIMIT:.0f} s")
        time.sleep(0.001)
    return time.monotonic() - began


def _running(target: TemporarySchema, node: RunningNode) -> set[int]:
    return {pid for pid in workers_of(node.pid) if _note_of(target.folder, pid).exists()}


def at_rest(target: TemporarySchema, start: str, kills: int) -> list[float]:
    """Return the seconds that a job waits whose node has just lost its only worker."""
    with target.session() as session, _node(target, 1, start) as node:
        publish(session, Counted)
        _perform_one(session, node)
        return [_waited(session, node) for _ in range(kills)]


def _waited(session: Session, node: RunningNode) -> float:
    time.sleep(REST)
    (worker,) = workers_of(node.pid)
    os.kill(worker, signal.SIGKILL)
    began = time.monotonic()
    _perform_one(session, node)
    return time.monotonic() - began


def _perform_one(session: Session, node: RunningNode) -> None:
    enqueue_all(session, [Counted(1)], lambda _: None)
    wait_until_done(session, node, 1, lambda _: None, Pace(least=0.002, share=0.01))


def _node(target: TemporarySchema, workers: int, start: str) -> RunningNode:
    settings = {"TXQUEUE_WORKER_START": start}
    return RunningNode(target, f"{APP},txqueue_bench.work", workers, start, settings)


def _milliseconds(seconds: list[float]) -> dict[str, int]:
    """Return the median, the 95th percentile and the longest."""
    ordered = sorted(seconds)
    p95 = ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]
    return {
        "p50": round(statistics.median(ordered) * 1000),
        "p95": round(p95 * 1000),
        "longest": round(ordered[-1] * 1000),
    }


def main(kills: int = KILLS) -> None:
    """Run and print."""
    told: dict[str, Any] = {}
    with bars() as stages:
        for start in STARTS:
            with embedded_schema(stages) as target:
                alone = at_rest(target, start, max(1, kills // 3))
                loaded = under_load(target, start, kills)
            told[start] = {
                "only_worker_ms": _milliseconds(alone),
                "under_load_ms": _milliseconds(loaded),
            }
    Console().print_json(data={"kills": kills, **told})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
