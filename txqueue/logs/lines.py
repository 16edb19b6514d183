"""The lines of the log: what Twisted's loggers and the standard library's emit, in one format."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen
from twisted.logger import ILogObserver, LogEvent
from zope.interface import implementer

from txqueue.logs.entries import RUN_FIELDS, entry_of_event, entry_of_record
from txqueue.model.run_log import RUNNING, log_fields
from txqueue.policy.endings.log_lines import LogEntry, json_line, text_line

__all__ = [
    "FORMATS",
    "FORMAT_VARIABLE",
    "NODE_VARIABLE",
    "LineHandler",
    "LineObserver",
    "line_of_output",
]

FORMAT_VARIABLE: Final = "TXQUEUE_LOG_FORMAT"
NODE_VARIABLE: Final = "TXQUEUE_LOG_NODE"
"""The node's name, for its workers: they write to the log before they get their settings."""

FORMATS: Final = {"text": text_line, "json": json_line}


@implementer(ILogObserver)
@frozen
class LineObserver:
    """Writes each event of Twisted's as a line.

    Attributes:
        write: Takes a line with its line break.
    """

    write: Callable[[str], object]

    def __call__(self, event: LogEvent) -> None:
        """Write an event, unless it has no text."""
        if (entry := entry_of_event(event)) is not None:
            self.write(_line(entry, _fields_of(event)))


class LineHandler(logging.Handler):
    """Writes each record of the standard library's loggers as a line.

    Once one is there, `logging.basicConfig()` does nothing, so no record is written twice.

    Args:
        write: Takes a line with its line break.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self._write(_line(entry_of_record(record), _running_fields()))


def line_of_output(text: str) -> str:
    """Return a line for what a process has written to its standard output or error by itself."""
    return _line(LogEntry(time.time(), "info", "output", text), {})


def _line(entry: LogEntry, fields: Mapping[str, Any]) -> str:
    form = FORMATS[os.environ.get(FORMAT_VARIABLE, "text")]
    return form(entry, {"node": os.environ.get(NODE_VARIABLE, "-"), **fields}) + "\n"


def _fields_of(event: LogEvent) -> Any:
    return event[RUN_FIELDS] if RUN_FIELDS in event else _running_fields()


def _running_fields() -> Mapping[str, Any]:
    run = RUNNING.get()
    return {} if run is None else log_fields(run)
