"""The page about moves: its commands move a queue from one server to another."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

from tests.db.masters import Master, master
from tests.docs.markdown import ROOT, Block, blocks
from tests.docs.session import Session
from txqueue.store.schema.migrations import migrate
from txqueue_torture.server import Server, as_account, short_folder

PAGE: Final = ROOT / "docs" / "howto" / "move-to-another-server.md"
SETTINGS: Final = {"wal_level": "logical"}


@frozen
class Move:
    """Two servers: one has a queue."""

    old: str
    new: str
    programs: Path
    folder: Path
    jobs: dict[int, str]

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
            jobs = filled(node)
        yield Move(old.dsn, new.dsn, old.programs, tmp_path, jobs)


def filled(node: Master) -> dict[int, str]:
    """Make a limit, and jobs in every state; return their states by number."""
    node.value("select txqueue.set_limit('queue', 'other', null, 1, 1, null, null, 'me')")
    for outcome in ("done", "failed"):
        node.enqueue({"queue": "default", "tenant": "blue"})
        (chunk,) = node.claim(1)
        if outcome == "done":
            assert node.complete(chunk) == 1
        else:
            node.settle(chunk, outcome, error="out of paper")
    node.value("select cancelled from txqueue.cancel(%s, 'ann')", node.enqueue({}))
    (first,) = node.enqueue({})
    assert node.claimed_ids(1) == [first]
    later = "2999-01-01T00:00:00Z"
    node.enqueue({"not_before": later}, {"after": [first]}, {}, {"tenant": "blue"})
    states = states_of(node)
    assert {*states.values()} == {"waiting", "ready", "assigned", "done", "failed", "cancelled"}
    return states


def states_of(node: Master) -> dict[int, str]:
    """Return the state of each job by its number."""
    rows = "select json_object_agg(job_id, state) from txqueue.job"
    return {int(number): state for number, state in node.value(rows).items()}


def assert_works(dsn: str, jobs: dict[int, str]) -> None:
    """Check that all jobs have moved, and that a new node gets the ready ones and new ones."""
    with master(dsn, "new") as node:
        assert states_of(node) == jobs
        new = node.enqueue({}, {})
        assert min(new) > max(jobs)
        ready = [number for number, state in jobs.items() if state == "ready"]
        assert {*node.claimed_ids()} == {*ready, *new}


@pytest.mark.parametrize("section", ["Dump and restore", "Logical replication"])
def test_a_queue_moves(move: Move, section: str) -> None:
    """Its jobs are there, no number is given twice, and a new node claims what is left."""
    move.follow("", section)
    assert_works(move.new, move.jobs)


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


def test_a_server_is_upgraded_in_place(tmp_path: Path) -> None:
    """From PostgreSQL 16 to 18, whose data have checksums unless told otherwise."""
    with short_folder() as folder:
        old, new = Server(folder / "a", version=16), Server(folder / "b")
        with old:
            migrate(old.dsn)
            with master(old.dsn) as node:
                jobs = filled(node)
            programs = old.programs
        with new:
            paths = {"OLD_BIN": programs, "NEW_BIN": new.programs, "NEW_DATA": new.data}
        shutil.rmtree(new.data)
        upgrade({**paths, "OLD_DATA": old.data}, new.folder, tmp_path)
        with new:
            migrate(new.dsn)
            assert_works(new.dsn, jobs)
