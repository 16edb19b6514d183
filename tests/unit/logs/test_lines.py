"""The lines of the log: what Twisted's loggers and the standard library's become; the last ones of
a run, kept for the case that it fails.
"""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.logger import Logger, LoggingFile, LogLevel, LogPublisher
from twisted.python.failure import Failure

from tests.unit.logs.running import SecondRun, Untold, running
from txqueue.logs.lines import (
    FORMAT_VARIABLE,
    NODE_VARIABLE,
    RUN_FIELDS,
    LineHandler,
    LineObserver,
    keep_event,
    keep_records,
)
from txqueue.model.run_log import MOST_ENTRIES, log_of


class Output:
    """A stream to which both kinds of loggers write."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.publisher = LogPublisher(LineObserver(self.stream.write))
        self.log = Logger("shop.mail", observer=self.publisher)
        self.library = logging.getLogger("shop.library")
        self.handler = LineHandler(self.stream.write)
        logging.getLogger().addHandler(self.handler)

    def handle(self, message: object, *arguments: object) -> None:
        """Handle a record as loggers do, without pytest's handlers, which refuse some."""
        record = logging.LogRecord("shop", logging.ERROR, "", 1, message, arguments, None)
        self.handler.handle(record)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What was written, an object each line."""
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[Output]:
    """An output in JSON, that ends with the test."""
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    monkeypatch.setenv(NODE_VARIABLE, "web-1")
    output = Output()
    yield output
    logging.getLogger().removeHandler(output.handler)


def failed() -> Failure:
    """A failure with a traceback."""
    try:
        raise KeyError("lost")
    except KeyError:
        return Failure()


def test_both_kinds_of_loggers_have_the_same_fields(output: Output) -> None:
    """And the same names of levels."""
    output.log.warn("sent {number}", number=3)
    output.library.warning("sent %d", 3)
    [first, second] = output.lines
    assert first.keys() == second.keys() == {"time", "level", "logger", "message", "node"}
    assert (first["node"], second["node"]) == ("web-1", "web-1")
    assert first["level"] == second["level"] == "warning"
    assert first["message"] == second["message"] == "sent 3"
    assert (first["logger"], second["logger"]) == ("shop.mail", "shop.library")


def test_both_formats_say_the_same(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """As text: time, level, node, job, logger and text, whichever library it came through."""
    output.library.warning("sent %d", 3)
    [parsed] = output.lines
    output.stream.truncate(0)
    output.stream.seek(0)
    monkeypatch.setenv(FORMAT_VARIABLE, "text")
    with running(SecondRun()):
        output.log.info("sent")
        output.library.warning("sent %d", 3)
    first, second = output.stream.getvalue().splitlines()
    assert first.split(" ", 1)[1] == "info web-1 job 7 shop.mail: sent"
    assert second.split(" ", 1)[1] == "warning web-1 job 7 shop.library: sent 3"
    assert len(first.split(" ")[0]) == len(parsed["time"])


def test_lines_within_a_job_name_it(output: Output) -> None:
    """With what else its log carries; other lines do not."""
    run = SecondRun()
    log_of(run).fields["trace_id"] = "4bf9"
    with running(run):
        output.log.info("in")
        output.library.error("in")
    output.log.info("out")
    named = {"job": 7, "work_type": "shop.Mail", "attempt": 2, "trace_id": "4bf9"}
    assert [named.items() <= line.items() for line in output.lines] == [True, True, False]
    assert "job" not in output.lines[2]


def test_exceptions_are_fields_of_their_own(output: Output) -> None:
    """Of both kinds of loggers, and of Twisted's former interface."""
    output.log.failure("it broke", failed())
    try:
        raise KeyError("lost")
    except KeyError:
        output.library.exception("it broke")
    output.publisher(
        {"failure": failed(), "why": "it broke", "log_format": "{log_text}", "log_text": "long"}
    )
    for line in output.lines:
        assert line["message"] == "it broke"
        assert line["traceback"].startswith("Traceback")
        assert line["traceback"].endswith("'lost'")


def test_the_line_of_a_failed_run_names_it(output: Output) -> None:
    """Though it is written by a process that does not run it; its traceback is apart."""
    output.log.error("{text}", text="job 9 failed\nTraceback\nKeyError", **{RUN_FIELDS: {"job": 9}})
    [line] = output.lines
    assert (line["job"], line["message"]) == (9, "job 9 failed")
    assert line["traceback"] == "Traceback\nKeyError"


def test_a_stack_is_a_field_of_its_own(output: Output) -> None:
    """With or without an exception."""
    output.library.warning("where", stack_info=True)
    [line] = output.lines
    assert line["stack"].startswith("Stack (most recent call last)")
    assert "traceback" not in line


@pytest.mark.parametrize(
    ("value", "trace"),
    [
        ("a text", "a text"),
        (KeyError("lost"), "KeyError: 'lost'"),
        (Untold(), "a Untold that has no text"),
        (3, "3"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failure_may_be_any_value(output: Output, value: object, trace: str) -> None:
    """Applications give Twisted's key for failures what they have."""
    output.log.error("it broke", log_failure=value)
    output.publisher({"log_level": "loud", "log_time": "now", "log_format": "odd"})
    [line, odd] = output.lines
    assert (line["message"], line["traceback"]) == ("it broke", trace)
    assert (odd["level"], odd["message"]) == ("loud", "odd")


def test_what_a_master_prints_is_no_error(output: Output) -> None:
    """Twisted's own stream for stderr gives it that level."""
    LoggingFile(Logger("stderr", observer=output.publisher), LogLevel.error).write("hint\n")
    [line] = output.lines
    assert (line["level"], line["logger"], line["message"]) == ("info", "stderr", "hint")


def test_no_line_is_lost_and_none_raises(output: Output) -> None:
    """Whatever a handler logs."""
    output.log.info("{missing}")
    output.log.info("{value}", value=Untold())
    output.handle("%d and %d", 1)
    output.handle("%s", Untold())
    output.handle(Untold())
    assert len(output.lines) == 5
    assert output.lines[2]["message"].startswith("%d and %d (TypeError")


def test_an_event_without_a_text_is_no_line(output: Output) -> None:
    """As in the log as text."""
    output.publisher({"log_format": None, "log_time": 1.0})
    assert output.lines == []


LOG = Logger("shop.mail", observer=keep_event)
LIBRARY = logging.getLogger("shop.library")


@pytest.fixture
def keeping() -> Iterator[None]:
    """Have records of the library kept, at the level that a worker sets."""
    former, level = logging.getLogRecordFactory(), LIBRARY.level
    LIBRARY.setLevel(logging.DEBUG)
    keep_records()
    yield
    logging.setLogRecordFactory(former)
    LIBRARY.setLevel(level)


def messages(run: SecondRun) -> list[str]:
    """What was kept, without the times."""
    return [] if run.log is None else [each.split(" ", 1)[1] for each in run.log.entries]


@pytest.mark.usefixtures("keeping")
def test_entries_of_both_kinds_of_loggers_are_kept_from_info_on() -> None:
    """In the order in which they were logged."""
    run = SecondRun()
    with running(run):
        LOG.debug("no")
        LOG.info("one {n}", n=1)
        LIBRARY.debug("no")
        LIBRARY.info("two %d", 2)
        # No logger, as pytest's handlers refuse such a record.
        logging.getLogRecordFactory()("shop", logging.INFO, "", 1, "wrong %d", ("x",), None)
    assert messages(run) == [
        "info shop.mail: one 1",
        "info shop.library: two 2",
        "info shop: wrong %d (TypeError with its arguments)",
    ]


@pytest.mark.usefixtures("keeping")
def test_a_run_that_logs_nothing_has_no_log() -> None:
    """And what is logged outside of runs is not kept."""
    run = SecondRun()
    with running(run):
        pass
    LOG.info("outside")
    LIBRARY.warning("outside")
    assert run.log is None


@pytest.mark.usefixtures("keeping")
def test_only_the_last_entries_are_kept() -> None:
    """However many there are."""
    run = SecondRun()
    with running(run):
        for number in range(1000):
            LOG.info("{number}", number=number)
    kept = messages(run)
    assert len(kept) == MOST_ENTRIES
    assert kept[-1] == "info shop.mail: 999"
