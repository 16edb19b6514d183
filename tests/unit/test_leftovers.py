"""What guards the other tests: one that leaves something behind fails itself."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ("hangs", "running", "servers", "leftovers")
IMPORTS = """
import subprocess
from twisted.internet import defer
from tests.waiting import pause, running_reactor

"""


def outcome(folder: Path, body: str, *more: str) -> str:
    """Run a test module in a process of its own, with the fixtures that every test has."""
    (folder / "test_inner.py").write_text(IMPORTS + body)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--reactor=asyncio"]
        + [f"-ptests.fixtures.{name}" for name in FIXTURES]
        + [f"--rootdir={folder}", *more, str(folder)],
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


@pytest.mark.parametrize("its", ["pass", "assert False"])
def test_one_that_hangs_ends_the_run(tmp_path: Path, its: str) -> None:
    """In a fixture's end too; what is left to read says which test, and in which call."""
    hanging = "import pytest, time\n@pytest.fixture\ndef late():\n    yield\n    time.sleep(600)\n"
    report = tmp_path / "report"
    test = f"{hanging}def test(late):\n    {its}\n"
    outcome(tmp_path, test, "-ohang_limit=1", f"-ohang_report={report}")
    said = report.read_text()
    assert said.startswith("hangs: test_inner.py::test\nTimeout (0:00:01)!\n")
    assert re.search(r"most recent call first\):\n  File .*test_inner.py.* in late\n", said)
