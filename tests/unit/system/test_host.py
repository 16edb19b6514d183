"""What one node can prove of another of its host."""

import os
import subprocess
import sys

import pytest

from tests.waiting import eventually
from txqueue.system.processes import has_ended, host_identity


def test_what_lives_has_not_ended() -> None:
    """This process, for one; and a host has one name as long as it is up."""
    assert not has_ended(os.getpid())
    assert host_identity() == host_identity() != ""


async def test_what_ended_has_ended_before_and_after_its_parent_notices() -> None:
    """A process whose parent has not asked for its status runs nothing any more."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    await eventually(lambda: has_ended(child.pid), 30.0)
    assert child.wait() == 0
    assert has_ended(child.pid)


def test_what_is_hidden_is_not_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another account that may not be asked after lives, as far as one can tell."""

    def refused(pid: int, number: int) -> None:
        raise PermissionError(pid, number)

    monkeypatch.setattr(os, "kill", refused)
    assert not has_ended(2**22 + 1)
