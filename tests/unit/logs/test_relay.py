"""What the workers and all that they start write, as lines of the master's log."""

import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from txqueue.logs.lines import FORMAT_VARIABLE, NODE_VARIABLE
from txqueue.logs.streams import Relay, WorkerLines

LENGTH, LINES = 12_000, 200
WRITER = f"""
import sys
from txqueue.logs.streams import WorkerLines
lines = WorkerLines(1)
for _ in range({LINES}):
    lines.write(sys.argv[1] * {LENGTH} + chr(10))
"""


class Log:
    """A master's log, and the pipe that leads to it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._relay = Relay()
        self._relay.write = self.texts.append
        self.descriptor = self._relay.streams()[1]

    def finished(self) -> list[str]:
        """The lines, once all writers have ended; those of others without their times."""
        self._relay.finish()
        return "".join(self.texts).splitlines()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log as text."""
    monkeypatch.setenv(FORMAT_VARIABLE, "text")
    monkeypatch.setenv(NODE_VARIABLE, "web-1")
    return Log()


def test_lines_of_several_processes_stay_whole(log: Log) -> None:
    """Each is longer than what a pipe takes at once, and the pipe is full most of the time."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, letter], stdout=log.descriptor)
        for letter in "abc"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    seen = Counter((line[0], len(line), len(set(line))) for line in log.finished())
    assert seen == {(letter, LENGTH, 1): LINES for letter in "abc"}


def test_what_others_write_becomes_lines_with_the_same_fields(log: Log) -> None:
    """Unfinished ones too, of any bytes; a line of a worker's stays whole between them."""
    os.write(log.descriptor, b"started\nhalf a line")
    WorkerLines(log.descriptor).write("of a worker\n    its traceback\n")
    os.write(log.descriptor, b"\x1d \xff garbage\nlast")
    lines = log.finished()
    assert lines[2:4] == ["of a worker", "    its traceback"]
    said = [line.split(" ", 1)[1] for line in lines if not line.startswith(("of", " "))]
    start = "info web-1 output: "
    assert said[:2] == [f"{start}started", f"{start}half a line"]
    assert said[-1] == f"{start}last"
    assert "\ufffd garbage" in lines[-2]


def test_the_marks_of_pieces_in_other_output_harm_no_line(log: Log) -> None:
    """Programs write any bytes; what only looks like the beginning of a piece is not kept."""
    lines = WorkerLines(log.descriptor)
    for garbage in (b"\x1e", b"\x1d", b"\x1e1\x1e2", b"\x1e1\x1e0\x1ex\x1e", b"a\x1eb\x1d\n"):
        os.write(log.descriptor, garbage)
        lines.write("whole\n")
    os.write(log.descriptor, b"\x1e1\x1e0\x1e" + b"x" * 10_000 + b"\n")
    written = log.finished()
    assert written.count("whole") == 5
    assert "xxxx" in written[-1]


def test_a_text_that_its_process_did_not_complete_harms_no_other(log: Log) -> None:
    """Though another process has the number later."""
    process = b"%d" % os.getpid()
    os.write(log.descriptor, b"\x1e" + process + b"\x1e0\x1etorn\x1d")
    WorkerLines(log.descriptor).write("whole\n")
    assert log.finished() == ["whole"]


def test_a_master_that_does_not_read_delays_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are dropped at once; without any reader, too."""
    monkeypatch.setattr("txqueue.logs.streams._LONGEST_WAIT", 0.1)
    reading, writing = os.pipe()
    lines = WorkerLines(writing)
    began = time.monotonic()
    for _ in range(1000):
        lines.write("x" * 1000 + "\n")
    assert time.monotonic() - began < 30
    os.close(reading)
    lines.write("without a reader\n")
    os.close(writing)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_writes_too(log: Log) -> None:
    """Though a thread of its parent was writing when it was made."""
    lines = WorkerLines(log.descriptor)
    lines._threads.acquire()
    child = os.fork()
    if child == 0:
        lines.write("from a fork\n")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    lines._threads.release()
    assert log.finished() == ["from a fork"]


def test_children_have_the_streams_of_a_process_without_a_log() -> None:
    """Such as one that no program of Twisted's runs."""
    assert Relay().streams() == {1: 1, 2: 2}
