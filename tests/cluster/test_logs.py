"""The log of a real node, and what is kept of it with failed attempts."""

import json
from importlib.metadata import version
from typing import Any

from tests.cluster.app_of_logs import Callback, CardDeclined, Coroutine, Task, Thread
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.waiting import eventually
from txqueue import WorkItem, WorkQueue

APP = Coroutine.__module__
CLASS = f"{APP}.{CardDeclined.__name__}"


def lines_of(log: str) -> list[dict[str, Any]]:
    """A log as a program reads it, which knows nothing but JSON."""
    return [json.loads(line) for line in log.splitlines()]


def found(lines: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The lines that say something."""
    return [line for line in lines if text in line["message"]]


def run_of(line: dict[str, Any]) -> tuple[Any, ...]:
    """Which run a line names."""
    return line.get("job"), line.get("work_type"), line.get("attempt")


async def test_every_line_is_json_and_those_of_handlers_name_their_jobs(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """Whatever they log with, in each runtime, also while others run; from start to end."""
    node = await nodes.start("--workers", "1", "--log-format", "json", app=APP).up()
    works: list[WorkItem] = [Coroutine(), Coroutine(), Task(), Task(), Thread()]
    ids = await queue.enqueue_many(works)
    await queue.enqueue_many([Callback()] * 20)
    await eventually(lambda: db.states() == {"failed": 2, "done": 23}, PATIENCE)
    await eventually(lambda: node.log.count("failed for good") == 2, PATIENCE)
    node.stop()
    lines = lines_of(node.log)
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    for job_id, work in zip(ids, works, strict=True):
        runs = (1, 2) if isinstance(work, Coroutine) else (1,)
        own = found(lines, f"{type(work).__name__.lower()} {job_id}")
        assert {run_of(line) for line in own} == {
            (job_id, type(work).work_type, run) for run in runs
        }
    [broken, _] = found(lines, "\N{PILE OF POO}")
    assert broken["traceback"].endswith("KeyError: 'lost'")
    assert len(found(lines, "wrong %d")) == 2
    ends = found(lines, "failed for good")
    assert {run_of(line) for line in ends} == {(each, Coroutine.work_type, 2) for each in ids[:2]}
    assert all(f"{CLASS}: no money" in line["traceback"] for line in ends)
    assert "job" not in lines[0]
    started = lines[0]["message"]
    assert f"txqueue {version('txqueue')}, node {node.name}: database " in started
    assert "schema txqueue, queues default, 1 worker, " in started
    assert "work types: tests.cluster.app_of_logs.Callback, " in started
    # Rather none than that of another job.
    assert [run_of(line) for line in found(lines, "callback ")] == [(None, None, None)] * 20
