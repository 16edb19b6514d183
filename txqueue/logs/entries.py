"""Reads what Twisted's loggers and those of the standard library emit, as `LogEntry`."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from twisted.logger import LogEvent, LogLevel, formatEvent
from twisted.python.failure import Failure

from txqueue.model.foreign import class_name, is_a, looked, text_of
from txqueue.policy.endings.log_lines import LogEntry
from txqueue.policy.endings.tracebacks import exception_text

__all__ = ["RUN_FIELDS", "entry_of_event", "entry_of_record", "is_informative"]

RUN_FIELDS: Final = "txqueue_run_fields"
"""The key of an event that has the fields of the run that it is about, or none: it reports that the
run failed, with a traceback after the first line of its text, or the run has printed it.
"""

# The year 10,000, which no format of times has.
_END_OF_TIME: Final = 253_402_300_800
_UNINFORMATIVE: Final = LogLevel.debug
# Twisted's word for a warning differs from that of the standard library.
_NAMES: Final = {"warn": "warning"}
# The key by which also Twisted's own streams, which a master has, give what was printed.
_PRINTED: Final = "log_io"


def is_informative(event: LogEvent) -> bool:
    """Tell whether an event of Twisted's is above the level of debugging."""
    return event.get("log_level") is not _UNINFORMATIVE


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
