"""Masters and whole nodes stopped past their leases in the middle of jobs, and resumed."""

from __future__ import annotations

import time
from random import uniform
from typing import Any

from txqueue_torture.checker import woke_up_starting
from txqueue_torture.environment import Testbed
from txqueue_torture.freezing import frozen
from txqueue_torture.node import TortureNode
from txqueue_torture.scenario import scenario

__all__ = ["frozen_master", "frozen_node", "rescue_races_completion"]

LEASES = 3
KINDS = ("effect:1", "grouped:0.3", "slow:1", "noop", "effect:0.1")
SHORT_LEASE = 1.0
RACES = 6
# Seconds by which a stop differs from the one before it.
STEP = 0.3
# Seconds by which a recorded start may follow the end of the lease: the worker checks the lease
# first, and then records the start.
MARGIN = 0.3
_INFO = "select incarnation, state from {schema}.node_info where name = %s"


@scenario("frozen_master", "a master is stopped for three leases, its workers continue")
def frozen_master(testbed: Testbed) -> None:
    """Stop a master: its jobs run elsewhere; its workers start no job and commit nothing stale."""
    _freeze(testbed, lambda node: [node.pid], "freeze master")


@scenario("frozen_node", "a whole node is stopped for three leases in the middle of its jobs")
def frozen_node(testbed: Testbed) -> None:
    """Stop a node: its jobs run elsewhere; when resumed, it neither starts nor commits them."""
    _freeze(testbed, lambda node: node.pids(), "freeze node")


def _freeze(testbed: Testbed, chosen: Any, kind: str) -> None:
    node, other = testbed.start_node("n1"), testbed.start_node("n2")
    node.wait_up()
    other.wait_up()
    testbed.start_client(rate=25, kinds=KINDS)
    for _ in range(int(testbed.scale)):
        testbed.flow()
        _freeze_once(testbed, node, chosen(node), kind)
    testbed.drain()


def _freeze_once(testbed: Testbed, node: TortureNode, pids: list[int], kind: str) -> None:
    """Stop a node past its lease, and wait until it works under a new incarnation."""
    incarnation, _ = _info(testbed, node)
    with testbed.fault(kind, nodes=[node], frozen=True, snapshot=False) as fault:
        with frozen(pids) as still:
            began = time.monotonic()
            testbed.rest(LEASES * testbed.lease)
            testbed.wait(
                lambda: _info(testbed, node)[1] == "dead", f"the others find {node.name} dead"
            )
        if still:
            fault.evidence = f"{still} stood still for {LEASES} leases, and {node.name} was dead"
    testbed.wait(lambda: _works(testbed, node, incarnation), f"{node.name} works again", every=0.3)
    _expect_no_zombie(testbed, incarnation, began + testbed.lease + MARGIN, still)


def _info(testbed: Testbed, node: TortureNode) -> tuple[int, str]:
    incarnation, state = testbed.database.rows(_INFO.format(schema=testbed.schema), (node.name,))[0]
    return incarnation, state


def _works(testbed: Testbed, node: TortureNode, former: int) -> bool:
    """Tell whether a node runs jobs under an incarnation after the given one."""
    runs = testbed.history().runs
    return any(run.node == node.name and run.incarnation != former for run in runs)


def _expect_no_zombie(testbed: Testbed, incarnation: int, since: float, stopped: list[int]) -> None:
    history = testbed.history()
    late = [
        run
        for run in history.runs
        if run.incarnation == incarnation
        and run.began > since
        and not (run.pid in stopped and woke_up_starting(run, history))
    ]
    testbed.figure("started_by_zombie", len(late))
    testbed.expect(not late, f"it starts nothing that it held before, but {late[:3]}")


@scenario("rescue_races_completion", "a master is repeatedly stopped for about a lease")
def rescue_races_completion(testbed: Testbed) -> None:
    """Stop a master for about its lease: jobs that end as they are rescued are completed once."""
    node = testbed.start_node("n1", lease=SHORT_LEASE)
    other = testbed.start_node("n2", lease=SHORT_LEASE)
    node.wait_up()
    other.wait_up()
    testbed.start_client(rate=40, kinds=("noop", "slow:0.2", "effect:0.1", "grouped:0.05"))
    testbed.flow()
    # A rescue waits a second beyond the lease. The next stop lasts longer where the master has
    # won, and shorter where the rescue has: all races are near the moment that decides.
    seconds = SHORT_LEASE + 1.0
    wins = []
    for _ in range(int(RACES * testbed.scale)):
        testbed.rest(0.7)
        wins.append(_race(testbed, node, seconds + uniform(-0.1, 0.1)))
        seconds += -STEP if wins[-1] else STEP
    testbed.figure("taken", sum(wins))
    testbed.figure("kept", len(wins) - sum(wins))
    testbed.expect(any(wins), "at least one race is won by the rescue")
    testbed.drain()


def _race(testbed: Testbed, node: TortureNode, seconds: float) -> bool:
    """Stop a master for the given time; return whether its jobs were rescued."""
    former, _ = _info(testbed, node)
    with testbed.fault("freeze master briefly", nodes=[node], frozen=True, snapshot=False) as fault:
        with frozen([node.pid]) as still:
            testbed.rest(seconds)
        if still:
            fault.evidence = f"{node.pid} stood still for {seconds:.2f} s, its lease is a second"
    testbed.wait(lambda: _info(testbed, node)[1] == "alive", f"{node.name} is alive")
    return _info(testbed, node)[0] > former
