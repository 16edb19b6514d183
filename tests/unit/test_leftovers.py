"""What guards the other tests: one that leaves something behind fails itself."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ("running", "servers", "leftovers")
IMPORTS = """
import subprocess
from twisted.internet import defer
from tests.waiting import pause, running_reactor

"""


def outcome(folder: Path, body: str) -> str:
    """Run a test module in a process of its own, with the fixtures that every test has."""
    (folder / "test_inner.py").write_text(IMPORTS + body)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--reactor=asyncio"]
        + [f"-ptests.fixtures.{name}" for name in FIXTURES]
        + [f"--rootdir={folder}", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_one_that_leaves_nothing_passes(tmp_path: Path) -> None:
    """An async test really runs."""
    said = outcome(tmp_path, "async def test():\n    await pause(0.01)\n    print('ran')\n")
    assert "1 passed" in said


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("running_reactor().callLater(60, print)", "left behind"),
        ("subprocess.Popen(['sleep', '60'])", "left behind"),
        ("defer.fail(ValueError('unhandled failure'))", "unhandled failure"),
    ],
)
def test_one_that_leaves_something_fails(tmp_path: Path, line: str, what: str) -> None:
    """A delayed call, a process, a failure."""
    said = outcome(tmp_path, f"async def test():\n    {line}\n")
    assert "1 error" in said
    assert what in said


def test_an_async_test_that_fails_is_seen(tmp_path: Path) -> None:
    """It is not a coroutine that is never awaited."""
    assert "1 failed" in outcome(tmp_path, "async def test():\n    assert False\n")
