"""The log as JSON: what Twisted's loggers and the standard library's become."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.logger import Logger, LogPublisher
from twisted.python.failure import Failure

from tests.unit.logs.running import SecondRun, Untold, running
from txqueue.logs.entries import FAILED_RUN
from txqueue.logs.json_output import add_json_handler, json_observer
from txqueue.model.run_log import log_of


class Output:
    """A stream to which both kinds of loggers write as JSON."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.publisher = LogPublisher(json_observer(self.stream))
        self.log = Logger("shop.mail", observer=self.publisher)
        self.library = logging.getLogger("shop.library")
        self.handler = add_json_handler(self.stream)

    def handle(self, message: object, *arguments: object) -> None:
        """Handle a record as loggers do, without pytest's handlers, which refuse some."""
        record = logging.LogRecord("shop", logging.ERROR, "", 1, message, arguments, None)
        self.handler.handle(record)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What was written, an object each line."""
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def output() -> Iterator[Output]:
    """An output that ends with the test."""
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
    assert first.keys() == second.keys() == {"time", "level", "logger", "message"}
    assert first["level"] == second["level"] == "warning"
    assert first["message"] == second["message"] == "sent 3"
    assert (first["logger"], second["logger"]) == ("shop.mail", "shop.library")


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
    output.log.error("{text}", text="job 9 failed\nTraceback\nKeyError", **{FAILED_RUN: {"job": 9}})
    [line] = output.lines
    assert (line["job"], line["message"]) == (9, "job 9 failed")
    assert line["traceback"] == "Traceback\nKeyError"


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
