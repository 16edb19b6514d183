"""Masters and whole nodes stopped past their leases in the middle of jobs, and resumed."""

from __future__ import annotations

import time
from random import uniform
from typing import Any

from txqueue.torture.checker import woke_up_starting
from txqueue.torture.environment import Ground
from txqueue.torture.freezing import frozen
from txqueue.torture.node import TortureNode
from txqueue.torture.scenario import scenario

__all__ = ["frozen_master", "frozen_node", "rescue_races_completion"]

LEASES = 3
KINDS = ("effect:1", "grouped:0.3", "slow:1", "noop", "effect:0.1")
SHORT_LEASE = 1.0
RACES = 6
# The tolerance of a start after the end of the lease: the worker checks the lease, then records.
MARGIN = 0.3
_INFO = "select incarnation, state from {schema}.node_info where name = %s"


@scenario("frozen_master", "a master is stopped for three leases, its workers continue")
def frozen_master(ground: Ground) -> None:
    """Its jobs run elsewhere; its workers start nothing more and commit nothing stale."""
    _freeze(ground, lambda node: [node.pid], "freeze master")


@scenario("frozen_node", "a whole node is stopped for three leases in the middle of its jobs")
def frozen_node(ground: Ground) -> None:
    """Its jobs run elsewhere; when resumed, it starts none of them and commits nothing stale."""
    _freeze(ground, lambda node: node.pids(), "freeze node")


def _freeze(ground: Ground, chosen: Any, kind: str) -> None:
    node, other = ground.start_node("n1"), ground.start_node("n2")
    node.wait_up()
    other.wait_up()
    ground.start_client(rate=25, kinds=KINDS)
    for _ in range(int(ground.scale)):
        ground.flow()
        _freeze_once(ground, node, chosen(node), kind)
    ground.drain()


def _freeze_once(ground: Ground, node: TortureNode, pids: list[int], kind: str) -> None:
    """Freeze the node, expect that it lost its jobs, and wait until it works as a new run."""
    incarnation, _ = _info(ground, node)
    with ground.fault(kind, nodes=[node], frozen=True, snapshot=False) as fault:
        with frozen(pids) as still:
            began = time.monotonic()
            ground.rest(LEASES * ground.lease)
            ground.wait(
                lambda: _info(ground, node)[1] == "dead", f"the others find {node.name} dead"
            )
        if still:
            fault.evidence = f"{still} stood still for {LEASES} leases, and {node.name} was dead"
    ground.wait(lambda: _works(ground, node, incarnation), f"{node.name} works again", every=0.3)
    _expect_no_zombie(ground, incarnation, began + ground.lease + MARGIN, still)


def _info(ground: Ground, node: TortureNode) -> tuple[int, str]:
    incarnation, state = ground.database.rows(_INFO.format(schema=ground.schema), (node.name,))[0]
    return incarnation, state


def _works(ground: Ground, node: TortureNode, former: int) -> bool:
    """Tell whether it has registered as a new run and runs jobs."""
    runs = ground.history().runs
    return any(run.node == node.name and run.incarnation > former for run in runs)


def _expect_no_zombie(ground: Ground, incarnation: int, since: float, stopped: list[int]) -> None:
    history = ground.history()
    late = [
        run
        for run in history.runs
        if run.incarnation == incarnation
        and run.began > since
        and not (run.pid in stopped and woke_up_starting(run, history))
    ]
    ground.figure("started_by_zombie", len(late))
    ground.expect(not late, f"it starts nothing that it held before, but {late[:3]}")


@scenario("rescue_races_completion", "a master is repeatedly stopped for about a lease")
def rescue_races_completion(ground: Ground) -> None:
    """Jobs end just as they are rescued: none is completed twice, none is lost."""
    node = ground.start_node("n1", lease=SHORT_LEASE)
    other = ground.start_node("n2", lease=SHORT_LEASE)
    node.wait_up()
    other.wait_up()
    ground.start_client(rate=40, kinds=("noop", "slow:0.2", "effect:0.1", "grouped:0.05"))
    ground.flow()
    taken = kept = 0
    for _ in range(int(RACES * ground.scale)):
        ground.rest(0.7)
        if _race(ground, node):
            taken += 1
        else:
            kept += 1
    ground.figure("taken", taken)
    ground.figure("kept", kept)
    ground.expect(taken, "at least one race is won by the rescue")
    ground.drain()


def _race(ground: Ground, node: TortureNode) -> bool:
    """Stop a master for about a lease; return whether its jobs were rescued."""
    former, _ = _info(ground, node)
    # A rescue waits a second beyond the lease.
    seconds = SHORT_LEASE + 1.0 + uniform(-0.4, 0.4)
    with ground.fault("freeze master briefly", nodes=[node], frozen=True, snapshot=False) as fault:
        with frozen([node.pid]) as still:
            ground.rest(seconds)
        if still:
            fault.evidence = f"{node.pid} stood still for {seconds:.2f} s, its lease is a second"
    ground.wait(lambda: _info(ground, node)[1] == "alive", f"{node.name} is alive")
    return _info(ground, node)[0] > former
