"""The page about moves: its commands move a queue from one server to another."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen

from tests.db.masters import Master, master
from tests.db.test_steps import APPROVAL, signal, started, steps, suspend, taken, write
from tests.docs.markdown import ROOT, Block, blocks
from tests.docs.session import Session
from txqueue.store.schema.migrations import migrate
from txqueue_torture.server import Server, as_account, short_folder

PAGE: Final = ROOT / "docs" / "howto" / "move-to-another-server.md"
SETTINGS: Final = {"wal_level": "logical"}
LATER: Final = "2999-01-01T00:00:00Z"
MOVED: Final = ("Jobs", "Unique keys, parents and groups", "Schedules", "Worksets")
TABLES: Final = Path(__file__).parents[2] / "schema" / "tables.sql"
ROWS: Final = "select json_agg(its order by its::text) from txqueue.{} its"


@frozen
class Queue:
    """The content of a queue: the states of its jobs by number, and the rows of its tables."""

    states: dict[int, str]
    rows: Mapping[str, Any]
    waiting: int
    """A job that waits for a signal, has done a step, and holds its group."""


@frozen
class Move:
    """Two servers: one has a queue."""

    old: str
    new: str
    programs: Path
    folder: Path
    queue: Queue

    def follow(self, *headings: str) -> None:
        """Do what the sections of the page say."""
        path = os.pathsep.join(map(str, (self.programs, Path(sys.executable).parent, os.defpath)))
        environment = {"OLD": self.old, "NEW": self.new, "PATH": path}
        with Session(self.folder, environment) as session:
            for heading in headings:
                session.follow(section(heading, self.folder))


def section(heading: str, folder: Path) -> list[Block]:
    """Return the blocks under a heading of the page; those before the first under none."""
    parts = re.split(r"^## (.*)\n", f"## \n{PAGE.read_text('utf-8')}", flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    part = folder / "part.md"
    part.write_text(texts[heading])
    return list(blocks(part))


@pytest.fixture
def move(tmp_path: Path) -> Iterator[Move]:
    """Two new servers, on the first a queue with a tenant's job and a limit."""
    with (
        short_folder() as folder,
        Server(folder / "a", SETTINGS) as old,
        Server(folder / "b", SETTINGS) as new,
    ):
        migrate(old.dsn)
        with master(old.dsn) as node:
            queue = filled(node)
        yield Move(old.dsn, new.dsn, old.programs, tmp_path, queue)


def filled(node: Master) -> Queue:
    """Make a limit, and jobs in every state and at every wait."""
    node.value("select txqueue.set_limit('queue', 'other', null, 1, 1, null, null, 'me')")
    for outcome in ("done", "failed"):
        node.enqueue({"queue": "default", "tenant": "blue"})
        (chunk,) = node.claim(1)
        if outcome == "done":
            assert node.complete(chunk) == 1
        else:
            node.settle(chunk, outcome, error="out of paper")
    node.value("select cancelled from txqueue.cancel(%s, 'ann')", node.enqueue({}))
    waiting = with_steps(node)
    (first,) = node.enqueue({})
    assert node.claimed_ids(1) == [first]
    node.enqueue({"not_before": LATER}, {"after": [first]}, {}, {"tenant": "blue"})
    states = states_of(node)
    assert {*states.values()} == {"waiting", "ready", "assigned", "done", "failed", "cancelled"}
    return Queue(states, rows_of(node), waiting)


def with_steps(node: Master) -> int:
    """Make jobs that have done steps, and wait; return one that waits for a signal."""
    for outcome in ("done", "failed"):
        chunk = started(node)
        write(node, chunk, {"name": "charge", "result": {"id": 7}})
        node.settle(chunk, outcome)
    (child,) = node.enqueue({"not_before": LATER})
    nap = {"name": "nap", "kind": "sleep", "seconds": 10**9}
    call = {"name": "call", "kind": "call", "child": child, "seconds": None}
    for wait in (nap, call):
        suspend(node, started(node), wait)
    chunk = started(node, group="g")
    (waiting,) = chunk.ids
    write(node, chunk, {"name": "charge", "result": {"id": 7}})
    node.settle(chunk, "suspended", waits=[{**APPROVAL, "hold_group": True}])
    signal(node, waiting, "unread", 1, key="click")
    reasons = {node.job(number)["waiting_for"] for number in states_of(node)}
    assert {"signal", "time", "parents"} <= reasons
    return waiting


def rows_of(node: Master) -> dict[str, Any]:
    """Return the rows of all tables of jobs, schedules and worksets."""
    chapters = iter(re.split(r"^-- (.+?) -+$", TABLES.read_text("utf-8"), flags=re.MULTILINE)[1:])
    topics = dict(zip(chapters, chapters, strict=True))
    tables = [
        table
        for topic in MOVED
        for table in re.findall(r"^create .*table txqueue\.(\w+) \(", topics[topic], re.MULTILINE)
    ]
    return {table: node.value(ROWS.format(table)) for table in tables}


def states_of(node: Master) -> dict[int, str]:
    """Return the state of each job by its number."""
    rows = "select json_object_agg(job_id, state) from txqueue.job"
    return {int(number): state for number, state in node.value(rows).items()}


def assert_works(dsn: str, queue: Queue) -> None:
    """Check that all rows have moved, and that a new node gets the ready jobs and new ones."""
    with master(dsn, "new") as node:
        assert states_of(node) == queue.states
        assert rows_of(node) == queue.rows
        new = node.enqueue({}, {"group": "g"}, {})
        assert min(new) > max(queue.states)
        ready = [number for number, state in queue.states.items() if state == "ready"]
        assert {*node.claimed_ids()} == {*ready, new[0], new[2]}
        assert_goes_on(node, queue.waiting)


def assert_goes_on(node: Master, waiting: int) -> None:
    """Check that a job that waits goes on by its signal, and that its steps are kept."""
    assert not signal(node, waiting, "unread", 1, key="click")
    assert signal(node, waiting, "approved", "by Ada")
    (chunk,) = node.claim()
    assert chunk.ids == [waiting]
    assert taken(node, chunk, APPROVAL) == ["by Ada"]
    assert steps(node, waiting) == {"charge": {"id": 7}, "approval": "by Ada"}
    write(node, chunk, {"name": "ship"})
    numbers = "select array_agg(name order by number) from txqueue.job_step where job_id = %s"
    assert node.value(numbers, waiting) == ["charge", "approval", "ship"]


@pytest.mark.parametrize("section", ["Dump and restore", "Logical replication"])
def test_a_queue_moves(move: Move, section: str) -> None:
    """Its jobs are there, no number is given twice, and a new node claims what is left."""
    move.follow("", section)
    assert_works(move.new, move.queue)


def upgrade(paths: dict[str, Path], folder: Path, page_folder: Path) -> None:
    """Type the commands of the page in a folder, as the account that owns the data."""
    manner = as_account(paths["OLD_DATA"].stat().st_uid)
    os.chown(folder, paths["OLD_DATA"].stat().st_uid, -1)
    told = {**manner.pop("env"), **{name: str(path) for name, path in paths.items()}}
    for block in section("Upgrade PostgreSQL in place", page_folder):
        for line in block.text.replace("\\\n", "").splitlines():
            if line.startswith("$ "):
                command = ["/bin/sh", "-c", line[2:]]
                subprocess.run(command, check=True, **{**manner, "env": told, "cwd": folder})


@pytest.mark.slow("docs/howto/move-to-another-server.md", "schema/migrations")
def test_a_server_is_upgraded_in_place(tmp_path: Path) -> None:
    """From PostgreSQL 16 to 18, whose data have checksums unless told otherwise."""
    with short_folder() as folder:
        old, new = Server(folder / "a", version=16), Server(folder / "b")
        with old:
            migrate(old.dsn)
            with master(old.dsn) as node:
                queue = filled(node)
            programs = old.programs
        with new:
            paths = {"OLD_BIN": programs, "NEW_BIN": new.programs, "NEW_DATA": new.data}
        shutil.rmtree(new.data)
        upgrade({**paths, "OLD_DATA": old.data}, new.folder, tmp_path)
        with new:
            migrate(new.dsn)
            assert_works(new.dsn, queue)
