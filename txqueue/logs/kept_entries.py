"""Keeps the last entries of each run, for the case that it fails: for all jobs together, not each.

Records of the standard library are seen where they are made, not by a handler: with a handler of
ours, applications would lose the library's default output and `logging.basicConfig()`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from twisted.logger import ILogObserver, LogEvent
from zope.interface import provider

from txqueue.logs.entries import RUN_FIELDS, entry_of_event, entry_of_record, is_informative
from txqueue.model.foreign import looked
from txqueue.model.run_log import RUNNING, log_of
from txqueue.policy.endings.log_lines import kept_text

__all__ = ["keep_event", "keep_records"]


@provider(ILogObserver)
def keep_event(event: LogEvent) -> None:
    """Keep an event of Twisted's with the job that runs; an observer of all events.

    What is printed is not kept: the text may be that of a record, which a handler prints.
    """
    run = RUNNING.get()
    if run is not None and is_informative(event) and RUN_FIELDS not in event:
        entry = looked(lambda: entry_of_event(event), None)
        if entry is not None:
            log_of(run).entries.append(kept_text(entry))


def keep_records() -> None:
    """Keep records of the standard library's loggers with the jobs that run, from now on."""
    logging.setLogRecordFactory(_keeping(logging.getLogRecordFactory()))


def _keeping(make_record: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        run = RUNNING.get()
        if run is not None and record.levelno >= logging.INFO:
            entry = looked(lambda: entry_of_record(record), None)
            if entry is not None:
                log_of(run).entries.append(kept_text(entry))
        return record

    return made
