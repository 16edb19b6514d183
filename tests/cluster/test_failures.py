"""Failures in the log of a node and in the tables of operators."""

from pathlib import Path

from tests.cluster.app_of_failures import Breaks
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.cluster.test_acting import called
from tests.waiting import eventually
from txqueue import WorkQueue

APP = "tests.cluster.app_of_failures"


async def test_failures_stand_in_the_log_of_the_node(
    nodes: Nodes, db: Database, queue: WorkQueue, tmp_path: Path
) -> None:
    """A line for each, with a traceback for the last attempt, and a hook that is called."""
    node = await nodes.start("--workers", "1", app=APP).up()
    [bad, away] = await queue.enqueue_many([Breaks(n, str(tmp_path / "fixed")) for n in (1, 2)])
    await eventually(lambda: db.states() == {"failed": 1, "waiting": 1}, PATIENCE)
    await eventually(lambda: "was reported" in node.log, PATIENCE)
    name = Breaks.work_type
    assert f"job {bad} ({name}) failed for good in attempt 1" in node.log
    assert "ValueError: row 1 of 'items' is bad\n" in node.log
    assert "in perform" in node.log
    assert f"job {away} ({name}) failed in attempt 1 of 5, again in 1 h: Conn" in node.log


async def test_everything_shows_through_a_node_as_people_see_it(
    nodes: Nodes, db: Database, queue: WorkQueue, tmp_path: Path
) -> None:
    """Tables, not only JSON: moments come over AMP as text."""
    node = await nodes.start("--workers", "1", app=APP).up()
    [bad, away] = await queue.enqueue_many([Breaks(n, str(tmp_path / "fixed")) for n in (1, 2)])
    await eventually(lambda: db.states() == {"failed": 1, "waiting": 1}, PATIENCE)
    shown = {
        view: called(*view.split(), node=node)
        for view in (
            *("status", "nodes", "jobs", f"job {bad}", f"job {away}", f"explain {bad}", "limits"),
            *("actions", "failures"),
        )
    }
    assert {view: done.stderr for view, done in shown.items() if done.returncode} == {}
    assert "is bad" in shown["failures"].stdout
