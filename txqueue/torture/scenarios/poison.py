"""Jobs that kill the process that runs them, among innocent ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from txqueue.torture.demands import ended_jobs
from txqueue.torture.environment import Ground
from txqueue.torture.node import TortureNode
from txqueue.torture.scenario import scenario

__all__ = [
    "poison_among_many",
    "poison_and_drain",
    "poison_exit",
    "poison_memory",
    "poison_one_worker",
    "poison_segfault",
]

APP = ("txqueue.torture.poison",)
# No job that runs for a second, as it would spend an attempt when its process dies.
INNOCENT = ("noop", "slow:0.3", "grouped:0.1", "effect:0.2", "heavy:0.1")
DEATHS = 5
MANY, FAST = 20_000, 5_000
# Only jobs that were running at the moment of a death count one.
MOST_BLAMED = 5 * DEATHS
# An innocent job runs beside poison at most this often, then it runs alone.
COMPANY = 3
# A worker that dies soon after its start is replaced with growing delays.
PATIENCE = 90.0
_POISONED = """select job_id, state::text as state, deaths, error from {schema}.job
    where work_type = 'txqueue.torture.' || %s order by job_id"""


@scenario("poison_exit", "jobs end their process by os._exit(), among innocent ones")
def poison_exit(ground: Ground) -> None:
    """They are quarantined after five deaths; no other job fails or spends an attempt."""
    _poison(ground, "exits", 2)


@scenario("poison_one_worker", "a job repeatedly ends the only worker of the only node")
def poison_one_worker(ground: Ground) -> None:
    """It is quarantined even there, where all other jobs must share its process or wait."""
    node = ground.start_node("n1", workers=1, capacity=8, app=APP).wait_up()
    ground.start_client(rate=10, kinds=INNOCENT)
    ground.flow()
    _see_quarantined(ground, [node], "exits", 1)
    _expect_innocence(ground)


@scenario("poison_segfault", "a job's library causes a segmentation fault, among innocent ones")
def poison_segfault(ground: Ground) -> None:
    """It is quarantined after five deaths; no other job fails or spends an attempt."""
    _poison(ground, "crashes", 1)


@scenario("poison_memory", "jobs use all memory of their process: one aborts, one raises")
def poison_memory(ground: Ground) -> None:
    """The one that ends its process is quarantined; the other fails with its MemoryError."""
    nodes = _start(ground)
    ground.start_client(rate=2, kinds=["is_eaten"], count=1, app=APP).wait()
    _see_quarantined(ground, nodes, "eats_memory", 1)
    (eaten,) = _await_ended(ground, "is_eaten")
    ground.expect(
        eaten["state"] == "failed" and "MemoryError" in (eaten["error"] or ""),
        f"whoever raises MemoryError has failed by that: {eaten}",
    )
    _expect_innocence(ground)


@scenario("poison_among_many", "a job ends its process, one among 20,000")
def poison_among_many(ground: Ground) -> None:
    """It is quarantined, and delays the innocent jobs only for a moment."""
    half = int(MANY * ground.scale / 2)
    ground.start_client(rate=FAST, kinds=["noop"], count=half).wait()
    ground.start_client(rate=5, kinds=["exits"], count=1, app=APP).wait()
    ground.start_client(rate=FAST, kinds=["noop"], count=half).wait()
    began = time.monotonic()
    for name in ("n1", "n2"):
        ground.start_node(name, capacity=50, app=APP)
    with ground.fault("poison", snapshot=False) as fault:
        for node in ground.nodes:
            node.wait_up()
        ground.wait(
            lambda: ended_jobs(ground) >= 2 * half, "all others are done", PATIENCE * ground.scale
        )
        ground.figure("innocent_seconds", round(time.monotonic() - began, 1))
        (found,) = _await_ended(ground, "exits")
        fault.evidence = str(found["error"])
    ground.expect(found["state"] == "failed" and found["deaths"] == DEATHS, f"{found}")
    _expect_innocence(ground)
    blamed = ground.figures["innocent_deaths"]
    ground.expect(blamed <= MOST_BLAMED, f"what waited is not blamed, but {blamed} are")


@scenario("poison_and_drain", "a node is stopped by SIGTERM while a job kills its workers")
def poison_and_drain(ground: Ground) -> None:
    """The node drains properly; the job is quarantined elsewhere, and innocent jobs are done."""
    first, second = _start(ground)
    with ground.fault("poison", snapshot=False) as fault:
        ground.start_client(rate=5, kinds=["exits"], count=1, app=APP).wait()
        ground.wait(lambda: _poisoned(ground, "exits")[0]["deaths"] > 0, "it has killed once")
        first.stop()
        (found,) = _await_ended(ground, "exits")
        fault.evidence = f"{found['error']}; {first.name} was stopped meanwhile"
    ground.expect(found["state"] == "failed" and found["deaths"] == DEATHS, f"{found}")
    ground.expect(second.is_running, "the other node goes on")
    _expect_innocence(ground)


def _poison(ground: Ground, kind: str, count: int) -> None:
    nodes = _start(ground)
    _see_quarantined(ground, nodes, kind, count)
    _expect_innocence(ground)


def _start(ground: Ground) -> list[TortureNode]:
    nodes = [ground.start_node(name, app=APP) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
    ground.start_client(rate=20, kinds=INNOCENT)
    ground.flow()
    return nodes


def _see_quarantined(ground: Ground, nodes: Sequence[TortureNode], kind: str, count: int) -> None:
    """Enqueue poison, and expect that it is quarantined."""
    wanted = int(count * ground.scale)
    with ground.fault("poison", nodes=nodes, snapshot=False) as fault:
        ground.start_client(rate=5, kinds=[kind], count=wanted, app=APP).wait()
        found = _await_ended(ground, kind)
        fault.evidence = "; ".join(f"job {each['job_id']}: {each['error']}" for each in found)
    for each in found:
        is_poison = each["state"] == "failed" and str(each["error"]).startswith("poison")
        ground.expect(is_poison and each["deaths"] == DEATHS, f"it is quarantined: {each}")
    ids = {each["job_id"] for each in found}
    starts = [run for run in ground.history().runs if run.job_id in ids]
    ground.figure("poison", len(found))
    ground.figure("poison_starts", len(starts))
    # Each quarantined job clears other suspects that died twice, including other poison.
    lifted = len(found) * (len(found) - 1) // 2
    most = DEATHS * len(found) + lifted
    ground.expect(len(starts) <= most, f"poison runs {len(starts)} times")


def _poisoned(ground: Ground, kind: str) -> list[dict[str, Any]]:
    return ground.database.dicts(_POISONED.format(schema=ground.schema), (kind,))


def _await_ended(ground: Ground, kind: str) -> list[dict[str, Any]]:
    final = ("done", "failed", "cancelled")
    ground.wait(
        lambda: all(each["state"] in final for each in _poisoned(ground, kind)),
        f"the jobs {kind} come to an end",
        PATIENCE * ground.scale,
    )
    return _poisoned(ground, kind)


def _expect_innocence(ground: Ground) -> None:
    """Expect that all other jobs are done, spent no attempt, and rarely died beside poison."""
    ground.rest(1.0)
    ground.drain()
    history = ground.history()
    kinds = {name.partition(":")[0] for name in INNOCENT}
    intents = {
        each.intent for each in history.enqueues.values() if each.kind.split(":")[0] in kinds
    }
    innocent = [job for job in history.jobs.values() if job.intent in intents]
    ground.expect(innocent, "there are innocent jobs")
    ground.figure("innocent", len(innocent))
    ground.figure("innocent_deaths", sum(job.deaths for job in innocent))
    failed = [job for job in innocent if job.state != "done"]
    ground.expect(not failed, f"no innocent job is failed, but {failed[:3]}")
    burned = [job for job in innocent if job.attempt != 1]
    ground.expect(not burned, f"none spends an attempt, but {burned[:3]}")
    often = [job for job in innocent if job.deaths > COMPANY]
    ground.expect(not often, f"none dies with poison more than three times, but {often[:3]}")
