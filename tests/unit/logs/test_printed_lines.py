"""What is printed becomes lines of the log, each of the run that printed it."""

import io
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.logger import globalLogPublisher

from tests.unit.logs.running import SecondRun, running
from txqueue.logs.lines import FORMAT_VARIABLE, LineObserver, keep_event
from txqueue.logs.streams import LONGEST_UNFINISHED, PrintedBytes, printed_lines
from txqueue.policy.endings.log_lines import LONGEST_MESSAGE

OWN_DESCRIPTOR = 2


class Printed:
    """A stream, and the log that it writes to."""

    def __init__(self) -> None:
        self.stream = printed_lines("stdout", OWN_DESCRIPTOR)
        self.log = io.StringIO()
        self.observer = LineObserver(self.log.write)

    def print(self, text: str, end: str = "") -> None:
        """Print a text, without a line break unless one is given."""
        print(text, end=end, file=self.stream)

    def end_line(self) -> None:
        """End the line of this thread."""
        lines: Any = self.stream.buffer
        assert isinstance(lines, PrintedBytes)
        lines.end_line()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The log, an object each line."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    @property
    def said(self) -> list[tuple[int | None, str]]:
        """The job and the message of each line."""
        return [(line.get("job"), line["message"]) for line in self.lines]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Printed]:
    """A stream whose log ends with the test."""
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    printed = Printed()
    globalLogPublisher.addObserver(printed.observer)
    globalLogPublisher.addObserver(keep_event)
    yield printed
    globalLogPublisher.removeObserver(keep_event)
    globalLogPublisher.removeObserver(printed.observer)


def test_an_unfinished_line_is_of_the_run_that_printed_it(printed: Printed) -> None:
    """Though another run prints before it ends."""
    first, second = SecondRun(1), SecondRun(2)
    with running(first):
        printed.print("charging ")
    with running(second):
        printed.print("plain", end="\n")
    printed.print("outside", end="\n")
    with running(first):
        printed.print("4111\nand ")
    assert printed.said == [(2, "plain"), (None, "outside"), (1, "charging 4111")]
    assert first.log is not None
    first.log.end()
    first.log.end()
    assert printed.said[3:] == [(1, "and ")]


def test_a_run_that_ends_has_its_rest_written(printed: Printed) -> None:
    """Also what it prints after its end, once the run is gone."""
    run = SecondRun(1)
    with running(run):
        printed.print("before")
        assert run.log is not None
        run.log.end()
        printed.print("after")
    del run
    assert printed.said == [(1, "before"), (1, "after")]


def test_threads_outside_of_runs_have_lines_of_their_own(printed: Printed) -> None:
    """The end of a thread ends its line."""
    printed.print("main ")
    thread = threading.Thread(target=printed.print, args=("thread",))
    thread.start()
    thread.join()
    printed.print("goes on")
    printed.end_line()
    assert printed.said == [(None, "thread"), (None, "main goes on")]


def test_threads_of_one_run_share_its_line(printed: Printed) -> None:
    """No text is lost, however they take turns."""

    def print_dots() -> None:
        with running(run):
            for _ in range(500):
                printed.print(".")

    run = SecondRun(1)
    threads = [threading.Thread(target=print_dots) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.log is not None
    run.log.end()
    assert printed.said == [(1, "." * 2000)]


def test_a_text_without_line_breaks_has_a_bound(printed: Printed) -> None:
    """What is printed in parts is not cut; one text that is too long is."""
    for _ in range(LONGEST_UNFINISHED):
        printed.print("xyz")
    printed.end_line()
    printed.print("y" * 99_999)
    texts = [message for _, message in printed.said]
    assert "".join(texts[:-1]) == "xyz" * LONGEST_UNFINISHED
    assert texts[-1] == "y" * LONGEST_MESSAGE + " [...]"


def test_printed_lines_are_information_and_are_not_kept(printed: Printed) -> None:
    """A handler of the standard library prints what was kept as a record."""
    run = SecondRun(1)
    handler = logging.StreamHandler(printed_lines("stderr", OWN_DESCRIPTOR))
    with running(run):
        handler.handle(logging.LogRecord("shop", logging.INFO, "", 1, "sent", (), None))
        printed.print("printed", end="\n")
    assert [(line["level"], line["logger"]) for line in printed.lines] == [
        ("info", "stderr"),
        ("info", "stdout"),
    ]
    assert run.log is not None
    assert not run.log.entries


def test_the_stream_is_used_like_pythons_own(printed: Printed) -> None:
    """By what handlers commonly call."""
    stream = printed.stream
    stream.reconfigure(line_buffering=True)
    assert stream.buffer.write("\N{SNOWMAN}\n".encode()) == 4
    assert stream.write("one\ntwo\n") == 8
    stream.writelines(["three\n", "four\n"])
    stream.flush()
    assert [text for _, text in printed.said] == ["\N{SNOWMAN}", "one", "two", "three", "four"]
    assert (stream.fileno(), stream.buffer.fileno()) == (OWN_DESCRIPTOR, OWN_DESCRIPTOR)
    assert (stream.isatty(), stream.writable(), stream.readable()) == (False, True, False)
    assert (stream.encoding, stream.errors, stream.name) == ("utf-8", "replace", "<stdout>")
    with pytest.raises(io.UnsupportedOperation):
        stream.read()
    with pytest.raises(TypeError, match="must be str, not bytes"):
        stream.write(b"x")  # type: ignore[arg-type]
    stream.close()
    with pytest.raises(ValueError, match="closed file"):
        stream.write("x")
