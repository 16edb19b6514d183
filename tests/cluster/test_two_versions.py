"""Nodes of two versions of an application side by side, as in a rolling deploy."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.cluster.database import Database
from tests.cluster.nodes import ROOT, Node, Nodes
from tests.waiting import eventually
from txqueue import WorkQueue

LIMIT = 120.0
# The newer version has a member and a field more, which has a default.
OLD = """
from enum import Enum

from attrs import define

import tests.cluster.app
from txqueue import WorkItem

class Size(Enum):
    SMALL = "small"
{member}

@define
class Letter(WorkItem):
    work_type = "versions.letter"
    number: int
    size: Size = Size.SMALL
{field}

    async def perform(self, job):
        return "{said}"
"""


def write(folder: Path, *, is_new: bool) -> dict[str, str]:
    """Write a version of the application; return the environment of a node that imports it."""
    folder.mkdir(exist_ok=True)
    more = {"member": '    LARGE = "large"', "field": "    note: str = ''", "said": "new"}
    text = OLD.format(**more) if is_new else OLD.format(member="", field="", said="old")
    # Byte code of a file of the same size and second would pass for that of the new one.
    (folder / "letters.py").write_text(text)
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}


def enqueue(db: Database, **fields: object) -> int:
    """Enqueue a letter as a producer of any version does."""
    return db.enqueue("versions.letter", json.dumps(fields))


async def reported(node: Node) -> list[str]:
    """Wait until a node has reported which versions of the application all its workers run."""

    def versions() -> list[str]:
        report = node.info.get("report") or {}
        # A worker that starts later would import what is written next.
        return [] if report.get("closed") else list(report.get("applications") or ())

    return await eventually(versions, LIMIT)


async def test_an_old_and_a_new_node_side_by_side(
    nodes: Nodes, db: Database, queue: WorkQueue, tmp_path: Path
) -> None:
    """Jobs of old and new producers are all done, and none spends an attempt on the old node."""
    old = nodes.start(app="letters", **write(tmp_path / "old", is_new=False))
    await old.up()
    first = [enqueue(db, number=n, size="large", note="n") for n in range(20)]
    await eventually(lambda: db.value("select count(*) from txqueue.unread_job") == 20, LIMIT)
    new = nodes.start(app="letters", **write(tmp_path / "new", is_new=True))
    await new.up()
    ids = [*first]
    for number in range(10):
        ids += [enqueue(db, number=number), enqueue(db, number=number, size="small")]
        ids += [enqueue(db, number=number, size="large"), enqueue(db, number=number, note="")]
    for job_id in ids:
        await queue.wait(job_id, LIMIT)
    assert db.states() == {"done": 60}
    assert {row["attempt"] for row in db.rows("select attempt from txqueue.job")} == {1}
    assert db.value("select count(*) from txqueue.failed_attempt") == 0


async def test_a_replaced_worker_has_imported_newer_files(
    nodes: Nodes, db: Database, queue: WorkQueue, tmp_path: Path
) -> None:
    """Its node says that the workers run two versions; a job is left to the one that reads it."""
    # A heartbeat every five seconds reports the versions.
    settings = {**write(tmp_path / "code", is_new=False), "TXQUEUE_LEASE": "20"}
    node = nodes.start("--workers", "2", "--worker-start", "spawn", app="letters", **settings)
    await node.up(2)
    before = await reported(node)
    write(tmp_path / "code", is_new=True)
    os.kill(min(node.workers), signal.SIGKILL)

    def said() -> dict[str, Any] | None:
        report: dict[str, Any] = node.info["report"]
        return report if len(report["applications"]) == 2 else None

    report = await eventually(said, LIMIT)
    assert report
    assert set(before) < set(report["applications"])
    assert report["is_outdated"]
    assert len(report["type_versions"]) > len(node.info["type_versions"])
    ids = [enqueue(db, number=n, size="large") for n in range(4)]
    for job_id in ids:
        assert await queue.wait(job_id, LIMIT) == "new"
    assert db.states() == {"done": 4}
