"""Processes that begin when their watcher is there."""

import subprocess
from pathlib import Path

from txqueue.system.processes import open_gate, start_gated, start_watcher

PATIENCE = 30


def test_without_a_word_the_program_never_begins(tmp_path: Path) -> None:
    """As when the starting process is killed before there is a watcher."""
    with start_gated(["/usr/bin/touch", str(tmp_path / "begun")]) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) != 0
    assert not (tmp_path / "begun").exists()


def test_the_program_has_the_number_of_its_process() -> None:
    """So a watcher can get the number before the program starts."""
    command = ["/bin/sh", "-c", "echo $$ && cat"]
    with start_gated(command, stdout=subprocess.PIPE) as process:
        open_gate(process)
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid


def test_a_program_that_talks_reads_what_comes_later() -> None:
    """Nothing of it is lost at the gate, and the gate's own line is not seen."""
    with start_gated(["/bin/cat"], stdout=subprocess.PIPE) as process:
        open_gate(process, talks=True)
        said, _ = process.communicate(b"one\ntwo\n", PATIENCE)
    assert said == b"one\ntwo\n"


def test_a_program_that_ended_before_the_gate_is_no_error() -> None:
    """Who owns it sees the status."""
    with start_gated(["/bin/true"]) as process:
        process.kill()
        process.wait(PATIENCE)
        open_gate(process)


def test_a_watcher_acts_when_we_are_gone(tmp_path: Path) -> None:
    """Its standard input closes at the latest then."""
    with start_watcher('read -r _; touch "$1"', str(tmp_path / "acted")) as watcher:
        watcher.communicate(timeout=PATIENCE)
    assert (tmp_path / "acted").exists()
