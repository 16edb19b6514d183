"""The page about moves: its commands move a queue from one server to another."""

import os
import re
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
from txqueue_torture.server import Server, short_folder

PAGE: Final = ROOT / "docs" / "howto" / "move-to-another-server.md"
SETTINGS: Final = {"wal_level": "logical"}


@frozen
class Move:
    """Two servers: one has a queue."""

    old: str
    new: str
    programs: Path
    folder: Path
    running: list[int]

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
            node.enqueue({}, {"tenant": "blue"})
            node.value("select txqueue.set_limit('queue', 'other', null, 1, 1, null, null, 'me')")
            running = node.claimed_ids(1)
        programs = Path(f"/proc/{old.postmaster}/exe").resolve().parent
        yield Move(old.dsn, new.dsn, programs, tmp_path, running)


def moved(node: Master) -> tuple[list[int], list[int]]:
    """Return the numbers of the jobs that are there, and those of two new ones."""
    there = node.column("select job_id from txqueue.job order by 1")
    return there, node.enqueue({}, {})


@pytest.mark.parametrize("section", ["Dump and restore", "Logical replication"])
def test_a_queue_moves(move: Move, section: str) -> None:
    """Its jobs are there, no number is given twice, and a new node claims what is left."""
    move.follow("", section)
    with master(move.new, "new") as node:
        there, new = moved(node)
        assert len(there) == 2
        assert min(new) > max(there)
        assert {*node.claimed_ids()} == {*there, *new} - {*move.running}
