"""Long jobs after a burst of quick ones: each goes where it can start."""

import json

import pytest

from tests.cluster.app import Noop, Noted
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.waiting import eventually

ALL = 40


def enqueue_many(db: Database, kind: type, number: int, **payload: object) -> None:
    """Enqueue alike ones by one statement."""
    job = {"work_type": kind.work_type, "payload": payload}  # type: ignore[attr-defined]
    db.value("select txqueue.enqueue_many(%s)", json.dumps([job] * number))


@pytest.mark.parametrize("number", [1, 2], ids=["one node", "two nodes"])
async def test_long_jobs_after_a_burst_all_run_at_once(
    number: int, nodes: Nodes, db: Database
) -> None:
    """None waits on a full worker while another is idle, however quick it was just now."""
    options = ("--workers", str(2 // number), "--capacity", "20")
    for node in [nodes.start(*options) for _ in range(number)]:
        await node.up()
    enqueue_many(db, Noop, 20_000)
    await eventually(lambda: db.states() == {"done": 20_000}, PATIENCE)
    enqueue_many(db, Noted, ALL, seconds=8.0)
    await eventually(lambda: len(db.runs()) == ALL, PATIENCE)
    assert len(db.runs("end")) == 0
    await eventually(lambda: db.states() == {"done": 20_000 + ALL}, PATIENCE)
