"""The end of the command's process: at once after it has only read, with all its output."""

import subprocess
import sys

import pytest

from txqueue.cli.console import may_skip_clean_up

COMMAND = [sys.executable, "-c", "from txqueue.cli import main; main()"]
AT_EXIT = "import atexit; atexit.register(print, 'cleaned up'); "


def ended(words: list[str], before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [*COMMAND[:2], before + COMMAND[2], *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_all_output_is_written() -> None:
    """Although the interpreter does not end by itself, which would write it."""
    done = ended(["--help"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().splitlines()[-1].startswith("  ")


def test_the_status_and_the_error_are_the_commands() -> None:
    """As with an ordinary end."""
    done = ended(["no-such-command"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


def test_a_command_that_only_reads_skips_the_clean_up() -> None:
    """It has nothing to clean up, and would take longer."""
    done = ended(["status", "--dsn", "host=/there/is/none"], AT_EXIT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: the database does not answer")


@pytest.mark.parametrize("module", ["twisted", "tempfile"])
def test_a_command_with_something_to_clean_up_does_so(module: str) -> None:
    """Temporary folders, threads and processes."""
    before = f"import {module}; {AT_EXIT}"
    assert "cleaned up" in ended(["--help"], before).stdout


def test_other_threads_are_waited_for() -> None:
    """They may be writing."""
    assert may_skip_clean_up({"sys"}, 1)
    assert not may_skip_clean_up({"sys"}, 2)
