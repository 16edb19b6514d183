"""Writes the log as JSON, one object a line: events of Twisted's and records of the library's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import IO, Any, cast

from twisted.logger import FileLogObserver, LogEvent

from txqueue.logs.entries import FAILED_RUN, PRINTED_BY, entry_of_event, entry_of_record
from txqueue.model.run_log import RUNNING, log_fields
from txqueue.policy.endings.log_lines import json_line
from txqueue.system.line_output import line_output

__all__ = ["add_json_handler", "is_json_handler", "json_observer"]


def json_observer(stream: IO[Any]) -> FileLogObserver:
    """Return an observer that writes Twisted's events to a stream."""
    return FileLogObserver(line_output(stream), _line_of_event)


def add_json_handler(stream: IO[Any]) -> logging.StreamHandler[IO[Any]]:
    """Write the records of the standard library's loggers to a stream, and return their handler.

    Once it is there, `logging.basicConfig()` does nothing, so no record is written twice.
    """
    handler = logging.StreamHandler(line_output(stream))
    handler.setFormatter(_JsonFormatter())
    logging.getLogger().addHandler(handler)
    return handler


def is_json_handler(handler: logging.Handler) -> bool:
    """Tell whether a handler is one of `add_json_handler`."""
    return isinstance(handler.formatter, _JsonFormatter)


class _JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        return json_line(entry_of_record(record), _running_fields())


def _line_of_event(event: LogEvent) -> str | None:
    entry = entry_of_event(event)
    if entry is None:
        return None
    return json_line(entry, _fields_of(event)) + "\n"


def _fields_of(event: LogEvent) -> Mapping[str, Any]:
    for key in (FAILED_RUN, PRINTED_BY):
        if key in event:
            return cast("Mapping[str, Any]", event[key])
    return _running_fields()


def _running_fields() -> Mapping[str, Any]:
    run = RUNNING.get()
    return {} if run is None else log_fields(run)
