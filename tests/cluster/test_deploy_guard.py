"""A bad deploy with the guard: it stops itself, and the former version does all its work."""

import os
from pathlib import Path

from tests.cluster.database import Database
from tests.cluster.nodes import ROOT, Node, Nodes
from tests.waiting import eventually

LIMIT = 120.0
CODE = """
from attrs import define

import tests.cluster.app
from txqueue import Retry, WorkItem

@define
class Send(WorkItem):
    work_type = "guarded.send"
    number: int
    retry = Retry(1)

    async def perform(self, job):
        return {value}
"""


def start(nodes: Nodes, folder: Path, value: str) -> Node:
    """Start a node with a version of the application, and with the guard."""
    folder.mkdir(exist_ok=True)
    (folder / "guarded.py").write_text(CODE.format(value=value))
    path = f"{folder}{os.pathsep}{ROOT}"
    settings = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return nodes.start("--hold", app="guarded", **settings)


async def test_a_bad_version_stops_itself(nodes: Nodes, db: Database, tmp_path: Path) -> None:
    """Its only node claims no more of the type; back on the former version, no job is lost."""
    seen = "select count(*) from txqueue.version_failure where work_type = 'guarded.send'"
    good = start(nodes, tmp_path / "good", "self.number")
    await good.up()
    await eventually(lambda: db.value(seen) == 1, LIMIT)
    good.stop()
    bad = start(nodes, tmp_path / "bad", "{}['a']")
    await bad.up()
    for number in range(8):
        db.enqueue("guarded.send", f'{{"number": {number}}}')
    await eventually(lambda: "held: guarded.send on " in bad.log, LIMIT)
    await eventually(lambda: db.states() == {"ready": 8}, LIMIT)
    assert db.value("select max(attempt) from txqueue.job") == 0
    good = start(nodes, tmp_path / "good", "self.number")
    await eventually(lambda: db.states() == {"done": 8}, LIMIT)
    await bad.logged("KeyError: 'a'")
