"""The lines of the log: what Twisted's loggers and the standard library's emit, in one format; the
last ones of each run are kept.

Records of the standard library are seen where they are made, not by a handler: with a handler of
ours, applications would lose the library's default output and `logging.basicConfig()`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent
from twisted.python.failure import Failure
from zope.interface import implementer, provider

from txqueue.model.foreign import class_name, is_a, looked, text_of
from txqueue.model.run_log import RUNNING, log_fields, log_of
from txqueue.policy.endings.log_lines import LogEntry, json_line, kept_text, text_line
from txqueue.policy.endings.tracebacks import exception_text

RUN_FIELDS: Final = "txqueue_run_fields"
"""The key of an event that has the fields of the run that it is about, or none: it reports that the
run failed, with a traceback after the first line of its text, or the run has printed it.
"""

# The year 10,000, which no format of times has.
_END_OF_TIME: Final = 253_402_300_800
# Twisted's word for a warning differs from that of the standard library.
_NAMES: Final = {"warn": "warning"}
# The key by which also Twisted's own streams, which a master has, give what was printed.
_PRINTED: Final = "log_io"


def entry_of_event(event: LogEvent) -> LogEntry | None:
    """Return an event of Twisted's as an entry; None if it has nothing to write."""
    message, trace = _texts_of(event)
    if not message and not trace:
        return None
    return LogEntry(
        at=_time_of(event),
        level=_level_of(event),
        logger=text_of(event.get("log_namespace") or "-"),
        message=message,
        traceback=trace,
    )


def _time_of(event: LogEvent) -> float:
    stamp = event.get("log_time")
    return stamp if isinstance(stamp, int | float) and 0 <= stamp < _END_OF_TIME else time.time()


def _level_of(event: LogEvent) -> str:
    level = event.get("log_level")
    # What is printed on stderr need not be an error: handlers of the standard library write there.
    if level is None or _PRINTED in event:
        return "info"
    name = text_of(getattr(level, "name", level))
    return _NAMES.get(name, name)


def _texts_of(event: LogEvent) -> tuple[str, str]:
    """Return the message of an event, and its traceback or an empty text."""
    if RUN_FIELDS in event:
        message, _, trace = formatEvent(event).partition("\n")
        return message, trace
    # An event of Twisted's former interface has its failure under another key, and in its text.
    if (failure := event.get("failure")) is not None and "log_failure" not in event:
        return text_of(event.get("why") or "Unhandled Error"), _trace_of(failure)
    failure = event.get("log_failure")
    return formatEvent(event), "" if failure is None else _trace_of(failure)


def _trace_of(failure: Any) -> str:
    """Return the traceback of a failure or an exception; of any other value its text."""
    if is_a(failure, Failure):
        trace = looked(lambda: str(failure.getTraceback()).rstrip(), "")
        return trace or _trace_of(looked(lambda: failure.value, None))
    if not is_a(failure, BaseException):
        return text_of(failure)
    return exception_text(failure)[1].rstrip()


def entry_of_record(record: logging.LogRecord) -> LogEntry:
    """Return a record of the standard library's as an entry."""
    return LogEntry(
        at=record.created,
        level=record.levelname.lower(),
        logger=text_of(record.name),
        message=_message_of(record),
        traceback=_record_trace(record),
        stack=record.stack_info or "",
    )


def _message_of(record: logging.LogRecord) -> str:
    try:
        return text_of(record.getMessage())
    except BaseException as error:
        # Arguments that do not fit the text, or a value without a text of its own.
        text = record.msg if type(record.msg) is str else "a message without a text"
        return f"{text} ({class_name(error)} with its arguments)"


def _record_trace(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return _trace_of(error) if error is not None else record.exc_text or ""


@provider(ILogObserver)
def keep_event(event: LogEvent) -> None:
    """Keep an event of Twisted's with the job that runs; an observer of all events.

    What is printed is not kept: the text may be that of a record, which a handler prints.
    """
    if event.get("log_level") is not LogLevel.debug and RUN_FIELDS not in event:
        _keep(lambda: entry_of_event(event))


def _keep(make: Callable[[], LogEntry | None]) -> None:
    """Keep an entry with the job that runs, if one does."""
    if (run := RUNNING.get()) is not None and (entry := looked(make, None)) is not None:
        log_of(run).entries.append(kept_text(entry))


def keep_records() -> None:
    """Keep records of the standard library's loggers with the jobs that run, from now on."""
    logging.setLogRecordFactory(_keeping(logging.getLogRecordFactory()))


def _keeping(make_record: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        if record.levelno >= logging.INFO:
            _keep(lambda: entry_of_record(record))
        return record

    return made


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
            fields = event[RUN_FIELDS] if RUN_FIELDS in event else _running_fields()
            self.write(_line(entry, fields))


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


def _running_fields() -> Mapping[str, Any]:
    run = RUNNING.get()
    return {} if run is None else log_fields(run)
