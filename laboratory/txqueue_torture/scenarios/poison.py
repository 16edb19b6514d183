"""Jobs that kill the process that runs them, among innocent ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from txqueue_torture.demands import ended_jobs
from txqueue_torture.environment import Testbed
from txqueue_torture.node import TortureNode
from txqueue_torture.scenario import scenario

__all__ = [
    "long_suspects",
    "poison_among_many",
    "poison_and_drain",
    "poison_descriptors",
    "poison_exit",
    "poison_memory",
    "poison_one_worker",
    "poison_segfault",
]

APP = ("txqueue_torture.poison",)
# None runs for a second, as such a job would spend an attempt when its process dies.
INNOCENT = ("noop", "slow:0.3", "grouped:0.1", "effect:0.2", "heavy:0.1")
DEATHS = 5
MANY, FAST = 6_000, 5_000
# Long jobs, how many seconds each takes, and how many others come beside them.
SUSPECTS, LONG, OTHERS = 30, 20, 50
# The most deaths of innocent jobs in all: only jobs that were running at a death count it.
MOST_BLAMED = 5 * DEATHS
# An innocent job runs beside poison at most this often, and then without other jobs.
COMPANY = 3
# Seconds; a worker that dies soon after its start is replaced with growing delays.
PATIENCE = 90.0
_POISONED = """select job_id, state::text as state, deaths, error from {schema}.job
    where work_type = 'txqueue_torture.' || %s order by job_id"""


@scenario("poison_exit", "jobs end their process by os._exit(), among innocent ones")
def poison_exit(testbed: Testbed) -> None:
    """Run jobs that exit: they fail after five deaths; others neither fail nor spend attempts."""
    _poison(testbed, "exits", 2)


@scenario("poison_one_worker", "a job repeatedly ends the only worker of the only node")
def poison_one_worker(testbed: Testbed) -> None:
    """Run a job that exits on one node's only worker: it fails after five deaths all the same."""
    node = testbed.start_node("n1", workers=1, capacity=8, app=APP).wait_up()
    testbed.start_client(rate=10, kinds=INNOCENT)
    testbed.flow()
    _see_quarantined(testbed, [node], "exits", 1)
    _expect_innocence(testbed)


@scenario("poison_segfault", "a job's library causes a segmentation fault, among innocent ones")
def poison_segfault(testbed: Testbed) -> None:
    """Run a job that crashes: it fails after five deaths; others stay unharmed."""
    _poison(testbed, "crashes", 1)


@scenario(
    "poison_descriptors", "jobs close all descriptors of their process: one returns, one waits"
)
def poison_descriptors(testbed: Testbed) -> None:
    """Run jobs whose process can report nothing any more: each fails after five deaths."""
    _poison(testbed, "closes", 2)


@scenario("poison_memory", "jobs use all memory of their process: one aborts, one raises")
def poison_memory(testbed: Testbed) -> None:
    """Run jobs that use all memory: one aborts and fails after five deaths, one by MemoryError."""
    nodes = _start(testbed)
    testbed.start_client(rate=2, kinds=["is_eaten"], count=1, app=APP).wait()
    _see_quarantined(testbed, nodes, "eats_memory", 1)
    (eaten,) = _await_ended(testbed, "is_eaten")
    testbed.expect(
        eaten["state"] == "failed" and "MemoryError" in (eaten["error"] or ""),
        f"a job that raises MemoryError fails with it: {eaten}",
    )
    _expect_innocence(testbed)


@scenario("poison_among_many", "a job ends its process, one among 6,000")
def poison_among_many(testbed: Testbed) -> None:
    """Run a job that exits among 6,000: it fails after five deaths, and the others soon end."""
    half = int(MANY * testbed.scale / 2)
    testbed.start_client(rate=FAST, kinds=["noop"], count=half, together=500).wait()
    testbed.start_client(rate=5, kinds=["exits"], count=1, app=APP).wait()
    testbed.start_client(rate=FAST, kinds=["noop"], count=half, together=500).wait()
    began = time.monotonic()
    for name in ("n1", "n2"):
        testbed.start_node(name, capacity=50, app=APP)
    with testbed.fault("poison", snapshot=False) as fault:
        for node in testbed.nodes:
            node.wait_up()
        testbed.wait(
            lambda: ended_jobs(testbed) >= 2 * half, "all others are done", PATIENCE * testbed.scale
        )
        testbed.figure("innocent_seconds", round(time.monotonic() - began, 1))
        (job,) = _await_ended(testbed, "exits")
        fault.evidence = str(job["error"])
    testbed.expect(job["state"] == "failed" and job["deaths"] == DEATHS, f"{job}")
    _expect_innocence(testbed)
    blamed = testbed.figures["innocent_deaths"]
    testbed.expect(blamed <= MOST_BLAMED, f"what waited is not blamed, but {blamed} are")


@scenario("long_suspects", "the only worker of the only node is killed twice under long jobs")
def long_suspects(testbed: Testbed) -> None:
    """Kill the worker of long jobs twice: as suspects they run together, beside what comes then."""
    node = testbed.start_node("n1", workers=1, capacity=SUSPECTS).wait_up()
    testbed.start_client(rate=FAST, kinds=[f"slow:{LONG}"], count=SUSPECTS).wait()
    for runs in (1, 2):
        testbed.wait(lambda runs=runs: _begun(testbed) == runs * SUSPECTS, f"{runs} runs of each")
        with testbed.fault("kill worker", nodes=[node], snapshot=False) as fault:
            fault.evidence = f"{node.kill_worker()} was killed, and {SUSPECTS} jobs with it"
    testbed.wait(lambda: _begun(testbed) == 3 * SUSPECTS, "all run as suspects", LONG)
    testbed.start_client(rate=FAST, kinds=["noop"], count=OTHERS).wait()
    testbed.wait(lambda: ended_jobs(testbed) >= OTHERS, "the others are done", LONG)
    ended = ended_jobs(testbed)
    testbed.expect(ended == OTHERS, f"they wait for no suspect, but {ended} jobs have ended")
    testbed.drain()
    testbed.expect_all_done()


def _begun(testbed: Testbed) -> int:
    return len(testbed.history().runs)


@scenario("poison_and_drain", "a node is stopped by SIGTERM while a job kills its workers")
def poison_and_drain(testbed: Testbed) -> None:
    """Stop a node whose workers a job kills: it drains, and the job fails elsewhere."""
    first, second = _start(testbed)
    with testbed.fault("poison", snapshot=False) as fault:
        testbed.start_client(rate=5, kinds=["exits"], count=1, app=APP).wait()
        testbed.wait(lambda: _poisoned(testbed, "exits")[0]["deaths"] > 0, "it has killed once")
        first.stop()
        (job,) = _await_ended(testbed, "exits")
        fault.evidence = f"{job['error']}; {first.name} was stopped meanwhile"
    testbed.expect(job["state"] == "failed" and job["deaths"] == DEATHS, f"{job}")
    testbed.expect(second.is_running, "the other node goes on")
    _expect_innocence(testbed)


def _poison(testbed: Testbed, kind: str, count: int) -> None:
    nodes = _start(testbed)
    _see_quarantined(testbed, nodes, kind, count)
    _expect_innocence(testbed)


def _start(testbed: Testbed) -> list[TortureNode]:
    nodes = [testbed.start_node(name, app=APP) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=INNOCENT)
    testbed.flow()
    return nodes


def _see_quarantined(testbed: Testbed, nodes: Sequence[TortureNode], kind: str, count: int) -> None:
    """Enqueue jobs that kill workers, and expect that each fails as poison after five deaths."""
    wanted = int(count * testbed.scale)
    with testbed.fault("poison", nodes=nodes, snapshot=False) as fault:
        testbed.start_client(rate=5, kinds=[kind], count=wanted, app=APP).wait()
        jobs = _await_ended(testbed, kind)
        fault.evidence = "; ".join(f"job {job['job_id']}: {job['error']}" for job in jobs)
    for job in jobs:
        is_poison = job["state"] == "failed" and str(job["error"]).startswith("poison")
        testbed.expect(is_poison and job["deaths"] == DEATHS, f"it is quarantined: {job}")
    ids = {job["job_id"] for job in jobs}
    starts = [run for run in testbed.history().runs if run.job_id in ids]
    testbed.figure("poison", len(jobs))
    testbed.figure("poison_starts", len(starts))
    # Each quarantined job clears other suspects that died twice, including other poison.
    lifted = len(jobs) * (len(jobs) - 1) // 2
    most = DEATHS * len(jobs) + lifted
    testbed.expect(len(starts) <= most, f"poison runs {len(starts)} times")


def _poisoned(testbed: Testbed, kind: str) -> list[dict[str, Any]]:
    return testbed.database.dicts(_POISONED.format(schema=testbed.schema), (kind,))


def _await_ended(testbed: Testbed, kind: str) -> list[dict[str, Any]]:
    final = ("done", "failed", "cancelled")
    testbed.wait(
        lambda: all(job["state"] in final for job in _poisoned(testbed, kind)),
        f"the jobs {kind} come to an end",
        PATIENCE * testbed.scale,
    )
    return _poisoned(testbed, kind)


def _expect_innocence(testbed: Testbed) -> None:
    """Expect that innocent jobs are done in their first attempt, and rarely died beside poison."""
    testbed.rest(1.0)
    testbed.drain()
    history = testbed.history()
    kinds = {name.partition(":")[0] for name in INNOCENT}
    intents = {
        enqueued.intent
        for enqueued in history.enqueues.values()
        if enqueued.kind.split(":")[0] in kinds
    }
    innocent = [job for job in history.jobs.values() if job.intent in intents]
    testbed.expect(innocent, "there are innocent jobs")
    testbed.figure("innocent", len(innocent))
    testbed.figure("innocent_deaths", sum(job.deaths for job in innocent))
    failed = [job for job in innocent if job.state != "done"]
    testbed.expect(not failed, f"no innocent job is failed, but {failed[:3]}")
    burned = [job for job in innocent if job.attempt != 1]
    testbed.expect(not burned, f"none spends an attempt, but {burned[:3]}")
    often = [job for job in innocent if job.deaths > COMPANY]
    testbed.expect(not often, f"none dies with poison more than three times, but {often[:3]}")
