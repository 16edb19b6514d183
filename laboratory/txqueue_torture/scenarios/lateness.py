"""Transactions that commit late, and very many jobs that fail at the same time."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from statistics import quantiles

from txqueue.store.inquiries.reader import Session
from txqueue_torture.environment import Testbed
from txqueue_torture.history import SUFFIX
from txqueue_torture.node import TortureNode
from txqueue_torture.recorder import Recorder
from txqueue_torture.scenario import scenario

__all__ = ["failing_at_once", "late_commit"]

# How late a transaction commits, in seconds: in the short form and with --long.
LATE, LONG_LATE = 8.0, 90.0
SOON = timedelta(seconds=1)
MARGIN = 2.0
NOOP = "txqueue_torture.noop"
_ENQUEUE = "select {schema}.enqueue(%s, %s)"
_DELAYED = "select {schema}.enqueue(%s, %s, not_before => now() + %s)"
_ASSIGNED = "select job_id from {schema}.enqueue_assigned(%s, %s, %s, %s)"
_LANE = "select last_value from {schema}.lane"
_NODE = "select node_id, incarnation from {schema}.node_info where name = %s"
_STATE = "select state from {schema}.node_info where name = %s"
_DUE = """select extract(epoch from not_before)::float8 from {schema}.job
    where work_type = 'txqueue_torture.fails_at_once'"""

JOBS, FAILURES = 1000, 2
STORM = ("txqueue_torture.storm",)
# In seconds: the default policy's second delay is 2 s, made up to a fifth shorter or longer.
SHORTEST, SPREAD = 1.6, 0.5
# The largest share of jobs due within one tenth of a second; they are retried over 0.8 seconds.
MOST_SHARE = 0.25


@scenario("late_commit", "transactions commit enqueues late, after the death of the assigned node")
def late_commit(testbed: Testbed) -> None:
    """Commit a transaction late: its jobs run soon, despite rotation and a node's death."""
    living, doomed = testbed.start_node("n1"), testbed.start_node("n2")
    living.wait_up()
    doomed.wait_up()
    testbed.start_client(rate=20, kinds=("noop", "slow:0.1", "grouped:0.05"))
    testbed.flow()
    recorder = Recorder(testbed.folder, "late", testbed.dsn)
    with testbed.database.session() as session:
        session.rows("begin")
        began = time.monotonic()
        enqueued = _enqueue_late(testbed, session, recorder, doomed)
        testbed.figure("lanes_passed", _turn_lanes(testbed))
        _kill(testbed, doomed)
        testbed.rest(
            max(0.0, began + (LATE if testbed.scale == 1 else LONG_LATE) - time.monotonic())
        )
        with testbed.fault("commit late", snapshot=False) as fault:
            session.rows("commit")
            committed = time.monotonic()
            fault.evidence = f"{len(enqueued)} jobs were committed {committed - began:.1f} s late"
    for intent, job_id in enqueued.items():
        recorder.write("enqueue", intent=intent, outcome="acknowledged", job_id=job_id)
    recorder.close()
    _expect_soon(testbed, set(enqueued.values()), committed)


def _enqueue_late(
    testbed: Testbed, session: Session, recorder: Recorder, doomed: TortureNode
) -> dict[str, int]:
    """Enqueue in each way, without a commit; return the job numbers by intent."""
    node = testbed.database.rows(_NODE.format(schema=testbed.schema), (doomed.name,))[0]
    roads: Sequence[tuple[str, Sequence[object], Sequence[object]]] = [
        (_ENQUEUE, (), ()),
        (_DELAYED, (), (SOON,)),
        (_ASSIGNED, node, ()),
    ]
    enqueued = {}
    for number in range(9):
        sql, before, after = roads[number % len(roads)]
        intent = f"late-{number}"
        entry = {"intent": intent, "kind": "noop", "outcome": "attempted"}
        recorder.write("enqueue", **entry)
        parameters = (*before, NOOP, json.dumps({"intent": intent}), *after)
        enqueued[intent] = int(session.value(sql.format(schema=testbed.schema), parameters))
    return enqueued


def _turn_lanes(testbed: Testbed) -> int:
    """Rotate the lanes as under load; return how often the current lane changed."""
    lane, turns = _LANE.format(schema=testbed.schema), 0
    with testbed.database.session() as session:
        for _ in range(12):
            before = session.value(lane)
            session.rows(f"select {testbed.schema}.rotate('{{}}', 1)")
            turns += before != session.value(lane)
    return turns


def _kill(testbed: Testbed, node: TortureNode) -> None:
    with testbed.fault("kill master", nodes=[node], still=True) as fault:
        fault.pids = {node.pid, *node.worker_pids()}
        node.kill_master()
        fault.evidence = f"{node.pid} is gone"
    question = _STATE.format(schema=testbed.schema)
    testbed.wait(
        lambda: testbed.database.value(question, (node.name,)) == "dead", "it is found dead"
    )


def _expect_soon(testbed: Testbed, ids: set[int], committed: float) -> None:
    testbed.wait(lambda: ids <= testbed.history().runs_by_job().keys(), "they run", every=0.3)
    testbed.drain()
    runs = {
        job: job_runs for job, job_runs in testbed.history().runs_by_job().items() if job in ids
    }
    took = max(job_runs[0].began - committed for job_runs in runs.values())
    limit = testbed.lease + MARGIN
    testbed.figure("late_start_seconds", round(took, 3))
    testbed.expect(
        took < limit, f"they start within {limit:g} s of the commit, not in {took:.1f} s"
    )
    testbed.expect(all(len(job_runs) == 1 for job_runs in runs.values()), f"each runs once: {runs}")


@scenario("failing_at_once", "a thousand jobs fail at the same moment, twice")
def failing_at_once(testbed: Testbed) -> None:
    """Make a thousand jobs fail at once: their retries are spread over time, and all are done."""
    nodes = [testbed.start_node(name, capacity=100, app=STORM) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
    jobs = int(JOBS * testbed.scale)
    with testbed.fault("fail at once", snapshot=False) as fault:
        _enqueue_storm(testbed, jobs)
        testbed.wait(lambda: not testbed.database.live_jobs(), "all have ended", 60 * testbed.scale)
        first = [run for run in testbed.history().runs if run.attempt == 1 and run.how == "raised"]
        took = max(run.began for run in first) - min(run.began for run in first)
        if len(first) == jobs:
            fault.evidence = f"{jobs} jobs failed within {took:.2f} s"
    testbed.drain()
    _expect_spread(testbed)
    testbed.expect_all_done()


def _enqueue_storm(testbed: Testbed, jobs: int) -> None:
    intents = [f"storm-{number}" for number in range(jobs)]
    _write_down(testbed, ({"intent": intent, "outcome": "attempted"} for intent in intents))
    work = "txqueue_torture.fails_at_once"
    with testbed.database.session() as session:
        due = session.value("select (now() + interval '2 s')::text")
        wanted = [
            {"work_type": work, "payload": {"intent": intent, "times": FAILURES}, "not_before": due}
            for intent in intents
        ]
        ids = session.enqueue_text(json.dumps(wanted))
    _write_down(
        testbed,
        (
            {"intent": intent, "outcome": "acknowledged", "job_id": job_id}
            for intent, job_id in zip(intents, ids, strict=True)
        ),
    )


def _write_down(testbed: Testbed, lines: Iterable[dict[str, object]]) -> None:
    entry = {"what": "enqueue", "kind": "storm", "mono": time.monotonic()}
    with (testbed.folder / f"storm{SUFFIX}").open("a") as out:
        out.writelines(json.dumps({**entry, **line}) + "\n" for line in lines)


def _expect_spread(testbed: Testbed) -> None:
    """Expect that the last retries have different delays and do not coincide."""
    delays = []
    for job_runs in testbed.history().runs_by_job().values():
        last = job_runs[FAILURES : FAILURES + 1]
        delays += [run.began - (job_runs[FAILURES - 1].ended or 0.0) for run in last]
    cuts = quantiles(delays, n=20)
    spread = cuts[-1] - cuts[0]
    testbed.figure("delays_spread_seconds", round(spread, 3))
    testbed.expect(spread > SPREAD, f"delays differ by more than {SPREAD} s, not {spread:.2f} s")
    soonest = min(delays, default=0.0)
    testbed.expect(soonest > SHORTEST, f"none comes back at once, but one after {soonest:.2f} s")
    due = [moment for (moment,) in testbed.database.rows(_DUE.format(schema=testbed.schema))]
    share = max(Counter(int(10 * moment) for moment in due).values()) / len(due)
    testbed.figure("peak_tenth_share", round(share, 3))
    testbed.expect(share < MOST_SHARE, f"no tenth of a second gets {MOST_SHARE:.0%}: {share:.0%}")
