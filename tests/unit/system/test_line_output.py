"""Whole lines from several processes, through one pipe."""

import io
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from txqueue.system.line_output import LineOutput, line_output

LENGTH, LINES = 12_000, 200
WRITER = f"""
import sys
from txqueue.system.line_output import LineOutput
output = LineOutput(1)
for _ in range({LINES}):
    output.write(sys.argv[1] * {LENGTH} + chr(10))
"""
HOLDER = """
import fcntl, sys, time
fcntl.lockf(1, fcntl.LOCK_EX)
print("held", file=sys.stderr, flush=True)
time.sleep(600)
"""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def eventually_full(descriptor: int) -> None:
    """Wait until a pipe is full."""
    while select.select((), (descriptor,), (), 0)[1]:
        time.sleep(0.001)


def lock_holder(descriptor: int) -> "subprocess.Popen[bytes]":
    """A process that has the lock of a pipe, and does nothing."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdout=descriptor, stderr=subprocess.PIPE
    )
    assert holder.stderr is not None
    assert holder.stderr.readline() == b"held\n"
    return holder


def test_lines_of_several_processes_stay_whole() -> None:
    """Each is longer than what a pipe takes at once, and the pipe is full most of the time."""
    reading, writing = os.pipe()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, letter], stdout=writing) for letter in "abc"
    ]
    os.close(writing)
    with open(reading, encoding="utf-8") as lines:
        seen = [(len(set(line)), len(line)) for line in lines]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert seen == [(2, LENGTH + 1)] * (3 * LINES)


def test_a_holder_that_dies_releases_the_lock(pipe: tuple[int, int]) -> None:
    """The kernel does."""
    holder = lock_holder(pipe[1])
    holder.kill()
    holder.communicate()
    began = time.monotonic()
    LineOutput(pipe[1]).write("next\n")
    assert time.monotonic() - began < 1
    assert os.read(pipe[0], 100) == b"next\n"


def test_a_holder_that_is_stopped_delays_one_line(pipe: tuple[int, int]) -> None:
    """Then lines are written without the lock, until it is free."""
    holder = lock_holder(pipe[1])
    holder.send_signal(signal.SIGSTOP)
    output = LineOutput(pipe[1])
    try:
        output.write("late\n")
        began = time.monotonic()
        for _ in range(10):
            output.write("at once\n")
        assert time.monotonic() - began < 1
    finally:
        holder.kill()
        holder.communicate()
    assert os.read(pipe[0], 1000) == b"late\n" + b"at once\n" * 10


def test_a_writer_waits_for_a_pipe_that_does_not_wait(pipe: tuple[int, int]) -> None:
    """Nothing of the line is lost when the pipe is full."""
    os.set_blocking(pipe[1], False)
    reader = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; time.sleep(0.3); print(len(sys.stdin.readline()))",
        ],
        stdin=pipe[0],
        stdout=subprocess.PIPE,
    )
    LineOutput(pipe[1]).write("x" * 200_000 + "\n")
    assert reader.communicate(timeout=60)[0] == b"200001\n"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_writes_too(pipe: tuple[int, int]) -> None:
    """Though a thread of its parent may have been writing when it was made."""
    os.set_blocking(pipe[1], False)
    output = LineOutput(pipe[1])
    thread = threading.Thread(target=output.write, args=("x" * 100_000,))
    thread.start()
    eventually_full(pipe[1])
    child = os.fork()
    if child == 0:
        os._exit(int(LineOutput._threads.acquire(timeout=5)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    while thread.is_alive():
        os.read(pipe[0], 65_536)
        thread.join(0.01)


def test_streams_without_a_descriptor_stay_as_they_are(tmp_path: Path) -> None:
    """Such as one in memory; a file gets its text in UTF-8, whatever its own encoding."""
    memory = io.StringIO()
    assert line_output(memory) is memory
    path = tmp_path / "log"
    with path.open("w", encoding="ascii") as file:
        file.write("before\n")
        line_output(file).write("\N{SNOWMAN}\n")
    assert path.read_text(encoding="utf-8") == "before\n\N{SNOWMAN}\n"
