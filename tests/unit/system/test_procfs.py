"""What is read of a process that may end meanwhile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from txqueue.system.processes import children_of


def test_the_children_of_a_process() -> None:
    """A child is there while it lives."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in children_of(os.getpid())
        assert children_of(child.pid) == []
    assert child.pid not in children_of(os.getpid())
    assert children_of(child.pid) == []


def test_a_process_that_ends_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no children: its folder goes between two steps of the listing."""

    def gone(path: Path, pattern: str) -> list[Path]:
        raise FileNotFoundError(path / pattern)

    monkeypatch.setattr(Path, "glob", gone)
    assert children_of(os.getpid()) == []
