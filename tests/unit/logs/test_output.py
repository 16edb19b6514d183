"""The output of a master's log: no caller waits for what reads or stores it."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from txqueue.logs.streams import MOST_KEPT, LogOutput

LIMIT = 30.0
LINE = "x" * 999 + "\n"


class Sink:
    """What stores lines, and can be stopped, or fail."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_full = False
        self.texts: list[str] = []

    def write(self, text: str) -> None:
        """Take a text, when it may."""
        assert self.is_open.wait(LIMIT)
        if self.is_full:
            raise OSError("no space left on device")
        self.texts.append(text)


@pytest.fixture
def sink() -> Sink:
    """A sink that takes everything."""
    return Sink()


@pytest.fixture
def output(sink: Sink) -> Iterator[LogOutput]:
    """An output of a master whose reactor runs, and whose own log it writes."""
    output = LogOutput(sink.write)
    output.is_awaited = False

    def observed(event: LogEvent) -> None:
        output.write(formatEvent(event) + "\n")

    observe: Any = observed
    globalLogPublisher.addObserver(observe)
    yield output
    globalLogPublisher.removeObserver(observe)


def took(act: Callable[[], object]) -> float:
    """How many seconds an act took."""
    began = time.monotonic()
    act()
    return time.monotonic() - began


def test_lines_are_written_in_their_order(output: LogOutput, sink: Sink) -> None:
    """Also what is called between them, such as a rotation."""
    output.write("one\n")
    output.call(lambda: sink.write("rotated"))
    output.write("two\n")
    output.finish(LIMIT)
    assert sink.texts == ["one\n", "rotated", "two\n"]


def test_a_reader_that_does_not_read_delays_no_caller(output: LogOutput, sink: Sink) -> None:
    """A bounded part waits, the rest is dropped; once there is room, one line says how much."""
    sink.is_open.clear()
    kept = MOST_KEPT // len(LINE)
    began = time.monotonic()
    for _ in range(kept + 100):
        output.write(LINE)
    assert time.monotonic() - began < LIMIT / 2
    sink.is_open.set()
    output.finish(LIMIT)
    assert sink.texts[:kept] == [LINE] * kept
    [said] = sink.texts[kept:]
    assert said.startswith("100 lines of the log were dropped")


def test_what_a_full_disk_does_not_take_is_dropped_and_counted(
    output: LogOutput, sink: Sink
) -> None:
    """The next line that can be written is followed by the count, once."""
    sink.is_full = True
    for _ in range(3):
        output.write("lost\n")
    output.finish(LIMIT)
    sink.is_full = False
    for _ in range(2):
        output.write("kept\n")
        output.finish(LIMIT)
    assert [text.split(" ")[0] for text in sink.texts] == ["kept\n", "3", "kept\n"]


def test_the_end_of_a_process_waits_briefly(output: LogOutput, sink: Sink) -> None:
    """For what can be written; a reader that does not read does not keep it."""
    sink.is_open.clear()
    output.write("late\n")
    assert took(lambda: output.finish(0.05)) < LIMIT / 2
    assert took(lambda: output.write("last\n")) < LIMIT / 2
    sink.is_open.set()
    output.finish(LIMIT)
    assert sink.texts == ["late\n", "last\n"]


def test_lines_of_other_processes_leave_room_for_those_of_the_master(
    output: LogOutput, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for a reader that reads, and are dropped if it does not."""
    monkeypatch.setattr("txqueue.logs.streams.RELAY_PATIENCE", 0.01)
    output.begin_process()
    sink.is_open.clear()
    for _ in range(2 * MOST_KEPT // len(LINE)):
        output.pass_on(LINE)
    output.write("of the master\n")
    sink.is_open.set()
    output.finish(LIMIT)
    kept = MOST_KEPT // 2 // len(LINE) + 1
    assert sink.texts[kept] == "of the master\n"
    assert "were dropped" in sink.texts[kept + 1]
