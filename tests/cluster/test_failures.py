"""Failures by kind, from workers that fail to operators who act on all of a kind."""

from pathlib import Path

from tests.cluster.app_of_failures import Breaks
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.cluster.test_acting import called, told
from tests.waiting import eventually
from txqueue import WorkQueue

APP = "tests.cluster.app_of_failures"


async def test_failures_of_a_kind_are_listed_postponed_and_run_again(
    nodes: Nodes, db: Database, queue: WorkQueue, tmp_path: Path
) -> None:
    """Errors that are fatal by their type end at once, others wait for another attempt."""
    node = await nodes.start("--workers", "1", app=APP).up()
    fixed = tmp_path / "fixed"
    await queue.enqueue_many([Breaks(number, str(fixed)) for number in range(1, 2501)])
    await eventually(lambda: db.states() == {"failed": 1250, "waiting": 1250}, PATIENCE)
    kinds = told(node, "failures")["failures"]
    assert {(kind["error"].split(":")[0], kind["failed"], kind["waiting"]) for kind in kinds} == {
        ("ValueError", 1250, 0),
        ("ConnectionError", 0, 1250),
    }
    bad, away = sorted(kinds, key=lambda kind: kind["waiting"])
    assert bad["first_seen"] <= bad["last_seen"]
    postponed = told(node, "failures", "postpone", bad["fingerprint"], "--for", "2h")
    assert postponed["postponed"] == 1250
    assert db.states() == {"waiting": 2500}
    due = "select count(distinct not_before) as n from txqueue.job where fingerprint = %s"
    assert db.value(due, bad["fingerprint"]) == 1
    fixed.write_text("")
    assert told(node, "failures", "retry", away["fingerprint"])["retried"] == 1250
    await eventually(lambda: db.states() == {"done": 1250, "waiting": 1250}, PATIENCE)
    assert told(node, "failures", "retry", bad["fingerprint"])["retried"] == 1250
    await eventually(lambda: db.states() == {"done": 2500}, PATIENCE)
    assert told(node, "failures") == {"failures": []}
    acts = db.rows("select what, count(*) as n from txqueue.action group by what")
    assert {act["what"]: act["n"] for act in acts} == {"postpone": 2, "retry": 4}


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
