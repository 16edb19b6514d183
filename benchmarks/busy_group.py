"""What 100,000 jobs of one busy group at the head cost the others, and how fast they run.

    python -m benchmarks.busy_group [jobs of the group [of them run]]

Runs a fresh embedded server. First one session claims jobs of other groups, one after the other:
with nothing else in the queue, and then behind the jobs of a group that is held; the lanes are
rotated as nodes do. Then one node runs jobs of the one group, in order and one at a time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from attrs import define
from rich.console import Console

from txqueue import WorkItem
from txqueue.demo.environment import TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, publish, wait_until_done
from txqueue.model.assignment import read_chunk
from txqueue.store.inquiries.reader import Session
from txqueue_bench.work import Counted

CLAIMS = 500
REST = 1.1
REGISTER = (
    "select node_id, incarnation from {0}.register_node"
    "('claims', '', 0, null, 3600, 100, '{{default}}', %s, '', null)"
)
CLAIM = (
    "select lane, assignment, chunk from {0}.next_job"
    "(%s, %s, '{{default}}', '{{benchmark.one}}', 50, 50, 100, 1000, 1)"
    " where assignment is not null"
)
COMPLETE = (
    "select total from {0}.complete(%s, array[%s]::smallint[], array[%s]::bigint[], array[%s])"
)
OUT_OF_ORDER = (
    "select count(*) from (select job_id < lag(job_id) over (order by finished_at, job_id) as late,"
    " assigned_at < lag(finished_at) over (order by assigned_at) as is_early"
    " from {0}.job where state = 'done' and \"group\" = 'busy') as run where late or is_early"
)
SPEED = (
    "select count(*) / extract(epoch from max(finished_at) - min(assigned_at))"
    " from {0}.job where state = 'done' and \"group\" = 'busy'"
)


@define
class One(WorkItem):
    """Any work."""

    work_type = "benchmark.one"

    async def perform(self, job: Any) -> None:
        """Do nothing."""


class Claimer:
    """A session that claims and completes as a master does."""

    def __init__(self, session: Session) -> None:
        self._session = session
        kind = {"work_type": One.work_type, "queue": "default", "priority": 4, "weight": 1}
        register = REGISTER.format(session.schema)
        ((self._node, self._incarnation),) = session.rows(register, (json.dumps([kind]),))

    def enqueue(self, group: str, jobs: int = 1) -> None:
        """Enqueue jobs of a group."""
        job = {"work_type": One.work_type, "payload": {}, "group": group}
        for start in range(0, jobs, 1000):
            self._session.enqueue_text(json.dumps([job] * min(1000, jobs - start)))

    def claim(self) -> list[tuple[Any, ...]]:
        """Take what there is."""
        claim = CLAIM.format(self._session.schema)
        return self._session.rows(claim, (self._node, self._incarnation))

    def timed_claims(self) -> list[float]:
        """Enqueue, claim and complete jobs of other groups; returns what each claim took, in ms."""
        took = []
        for number in range(CLAIMS):
            self.enqueue(f"other {number}")
            began = time.perf_counter()
            chunks = self.claim()
            took.append((time.perf_counter() - began) * 1000)
            for lane, assignment, chunk in chunks:
                ids = "{" + ",".join(str(job.job_id) for job in read_chunk(chunk)) + "}"
                complete = COMPLETE.format(self._session.schema)
                self._session.rows(complete, (self._incarnation, lane, assignment, ids))
            if number % 100 == 0:
                time.sleep(REST)
                self._session.rows(f"select {self._session.schema}.rotate()")
        return took


def claims(target: TemporarySchema, jobs: int) -> dict[str, object]:
    """Time claims in an empty queue, and behind a busy group."""
    with target.session() as session:
        claimer = Claimer(session)
        claimer.timed_claims()
        empty = claimer.timed_claims()
        claimer.enqueue("busy")
        claimer.claim()
        claimer.enqueue("busy", jobs)
        behind = claimer.timed_claims()
        session.rows(f"truncate {session.schema}.job")
    return {
        "claim_p95_ms_empty": round(_percentile(empty, 95), 2),
        "claim_p95_ms_behind": round(_percentile(behind, 95), 2),
        "claim_max_ms_behind": round(max(behind), 1),
        "ratio": round(_percentile(behind, 95) / _percentile(empty, 95), 2),
    }


def chain(target: TemporarySchema, jobs: int) -> dict[str, object]:
    """Have a node run jobs of one group."""
    with target.session() as session:
        publish(session, Counted)
        for start in range(1, jobs + 1, 1000):
            numbers = range(start, min(start + 1000, jobs + 1))
            kind = {"work_type": Counted.work_type, "group": "busy"}
            session.enqueue_text(json.dumps([{**kind, "payload": {"number": n}} for n in numbers]))
        with RunningNode(target, "txqueue_bench.work", 2) as node:
            wait_until_done(session, node, jobs, lambda _: None)
        return {
            "one_at_a_time_per_second": round(float(session.value(SPEED.format(session.schema)))),
            "out_of_order": session.value(OUT_OF_ORDER.format(session.schema)),
        }


def _percentile(values: Sequence[float], part: int) -> float:
    return sorted(values)[len(values) * part // 100]


def main(jobs: int = 100_000, run: int = 5_000) -> None:
    """Measure and print."""
    with bars() as stages, embedded_schema(stages) as target:
        stages.begin("claims beside a busy group")
        document = claims(target, jobs)
        stages.begin("one at a time")
        document |= chain(target, run)
    Console().print_json(data={"jobs": jobs, **document})


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
