"""Signals to real processes: those that would end a node without draining are survived."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

MASTER = """
import fcntl, sys, termios
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.logger import globalLogBeginner, textFileLogObserver
from txqueue.node.master_process import follow_signals

class Node:
    def say_that_it_drains(self):
        print("drains", flush=True)

    def stop_at_once(self):
        print("stops at once", flush=True)

if sys.argv[1:]:
    fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)
globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout)], redirectStandardIO=False)
reactor.callWhenRunning(follow_signals, reactor, [Node()], 0.5)
reactor.callWhenRunning(print, "runs", flush=True)
reactor.addSystemEventTrigger("before", "shutdown", Deferred)
reactor.run()
"""
# From the second turn of the reactor on, when it follows signals.
HANG = """
import time
def hang():
    print("hangs", flush=True)
    while True:
        time.sleep(0.1)
reactor.callWhenRunning(reactor.callLater, 0, hang)
"""
# The same, once its log has filled the pipe that nothing reads.
STALL = """
import os, select, time
from twisted.logger import globalLogBeginner
from txqueue.logs.lines import LineObserver
from txqueue.logs.streams import OUTPUT
OUTPUT.sink = lambda text: os.write(1, text.encode())
globalLogBeginner.beginLoggingTo([LineObserver(OUTPUT.write)])
def fill():
    OUTPUT.is_awaited = False
    while select.select([], [1], [], 0)[1]:
        os.write(1, b"x" * select.PIPE_BUF)
    print("waits for the reader of the log")
    while True:
        time.sleep(0.1)
reactor.callWhenRunning(reactor.callLater, 0, fill)
"""
WORKER = """
import os, signal
from txqueue.worker.entry import begin_process
begin_process()
for each in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT):
    os.kill(os.getpid(), each)
os.write(1, b"lives\\n")
"""


@contextmanager
def started(program: str, *terminal: int) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a session of its own, with a terminal or without."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, terminal)],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        pass_fds=terminal,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Read lines up to the one with the words, and return those before it."""
    assert process.stdout is not None
    before: list[str] = []
    for line in iter(process.stdout.readline, ""):
        if words in line:
            return before
        before.append(line)
    raise AssertionError(before)


def insist(process: subprocess.Popen[str]) -> None:
    """Send SIGTERM again and again, until it stops at once."""
    ended = Event()

    def signal_again() -> None:
        while not ended.wait(0.1):
            process.send_signal(signal.SIGTERM)

    thread = Thread(target=signal_again)
    thread.start()
    try:
        until(process, "stops at once")
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_master_that_cannot_stop_ends_after_the_second_signal(
    number: signal.Signals, hangs: bool
) -> None:
    """Though its reactor hangs, or its shutdown never ends; further signals change nothing."""
    program = MASTER.replace("reactor.run()", HANG * hangs + "reactor.run()")
    with started(program) as master:
        until(master, "hangs" if hangs else "runs")
        deadline = time.monotonic() + 20
        while master.poll() is None and time.monotonic() < deadline:
            master.send_signal(number)
            time.sleep(0.1)
        assert master.wait(1) == 128 + number


def test_a_master_whose_log_is_not_read_ends_after_the_second_signal() -> None:
    """The last line of its log does not keep it."""
    program = "".join(line for line in MASTER.splitlines(keepends=True) if "textFile" not in line)
    program = program.replace("reactor.run()", STALL + "reactor.run()")
    with started(program) as master:
        assert master.stdout is not None
        waiting = bytearray(4)
        while int.from_bytes(waiting, sys.byteorder) < 60_000:
            fcntl.ioctl(master.stdout, termios.FIONREAD, waiting)
            time.sleep(0.01)
        deadline = time.monotonic() + 20
        while master.poll() is None and time.monotonic() < deadline:
            master.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        assert master.wait(1) == 128 + signal.SIGTERM


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
def test_signals_close_together_are_one_request(again: signal.Signals) -> None:
    """`timeout`, a terminal and a process manager send each twice: the node still drains."""
    with started(MASTER) as master:
        until(master, "runs")
        for each in (signal.SIGHUP, signal.SIGUSR2):
            master.send_signal(each)
            until(master, f"{each.name} is ignored; SIGTERM drains the node")
        master.send_signal(signal.SIGTERM)
        until(master, "drains")
        master.send_signal(again)
        master.send_signal(signal.SIGUSR1)
        assert not any("at once" in line for line in until(master, "SIGUSR1 is ignored"))
        insist(master)


def test_a_master_drains_when_its_terminal_is_gone() -> None:
    """Further SIGHUPs do not stop it at once: a shell and the kernel send one each."""
    ours, its = os.openpty()
    with started(MASTER, its) as master:
        os.close(its)
        until(master, "runs")
        os.close(ours)
        until(master, "drains")
        master.send_signal(signal.SIGHUP)
        master.send_signal(signal.SIGUSR1)
        assert not any("at once" in line for line in until(master, "SIGUSR1 is ignored"))
        insist(master)


def test_a_worker_survives_what_its_whole_process_group_gets() -> None:
    """Its master decides when it ends."""
    with started(WORKER) as worker:
        until(worker, "lives")
