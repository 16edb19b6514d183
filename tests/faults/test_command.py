"""``txqueue torture`` as a person calls it, in a database that is in use."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from txqueue.store.inquiries.reader import Session

COMMAND = [sys.executable, "-c", "from txqueue.cli import main; main()", "torture"]
PATIENCE = 240.0

Called = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def torture(database18: str, tmp_path: Path) -> Called:
    """Calls the command with a database of the test's own."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("TXQUEUE_")}
    told = {"TXQUEUE_DSN": database18, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path.cwd())}

    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*COMMAND, *words],
            env={**ours, **told},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return call


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "error: name scenarios, or say --all or --ha; --list shows them"),
        (["nonsense", "calm"], "error: there is no scenario nonsense; --list shows them"),
    ],
)
def test_a_wrong_call(words: list[str], said: str, torture: Called) -> None:
    """One line says what is wrong, and the status is that of a wrong call."""
    done = torture(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(said)


def test_the_list(torture: Called) -> None:
    """What there is, each with a line that says what happens."""
    listed = json.loads(torture("--list", "--json").stdout)["scenarios"]
    assert {"calm", "worker_kill"} <= {each["name"] for each in listed}
    assert all(each["summary"] for each in listed)


@pytest.mark.slow("laboratory/txqueue_torture")
def test_in_a_database_in_use(torture: Called, database18: str, tmp_path: Path) -> None:
    """It has a schema of its own and leaves nothing; what hurts a server is left out."""
    done = torture("expiry", "postmaster_killed", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    played, skipped = document["scenarios"]
    assert document["violations"] == 0
    assert (played["name"], played["skipped"], played["violations"]) == ("expiry", None, [])
    assert played["enqueued"] > 0
    assert "embedded" in skipped["skipped"]
    with Session(database18) as session:
        assert session.value("select to_regnamespace('txqueue_torture') is null")
        assert session.value("select to_regrole('txqueue_torture_worker') is null")
        assert session.value("select to_regnamespace('txqueue') is null")
    assert list(tmp_path.iterdir()) == []
