"""The log of a run: which job a line of the log belongs to, and the last lines of each run."""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import Any, Final, Protocol

from attrs import Factory, define

__all__ = ["MOST_ENTRIES", "RUNNING", "LoggedRun", "PrintedLine", "RunLog", "log_fields", "log_of"]

MOST_ENTRIES: Final = 50
"""How many entries of a run are kept."""


class PrintedLine(Protocol):
    """What a run has printed on a stream since its last line break."""

    def add(self, text: str) -> None:
        """Add a text, and write the lines that it ends to the log."""

    def end(self) -> None:
        """Write it to the log, as no more of the line comes."""


@define
class RunLog:
    """What is kept of the log of one run, made when it is first needed: most runs log nothing.

    Attributes:
        entries: The last entries, the oldest first; a handler in a thread may add some at any time.
        fields: More fields of each JSON line of the run, such as the number of a trace.
        printed: The unfinished line of each stream that the run has printed on, by its name.
    """

    entries: deque[str] = Factory(lambda: deque(maxlen=MOST_ENTRIES))
    fields: dict[str, Any] = Factory(dict)
    printed: dict[str, PrintedLine] = Factory(dict)

    def end(self) -> None:
        """Write unfinished lines to the log, as the run ends."""
        for line in list(self.printed.values()):
            line.end()


class LoggedRun(Protocol):
    """A running job, as the log uses it.

    Attributes:
        id: The job's number.
        work_type: The name of its work type.
        attempt: The number of this run, from 1.
        log: What is kept of its log; None for nothing.
    """

    id: int
    work_type: str
    attempt: int
    log: RunLog | None


RUNNING: Final[ContextVar[LoggedRun | None]] = ContextVar("txqueue_running_job", default=None)
"""The job whose handler runs; None outside of handlers."""


def log_of(run: LoggedRun) -> RunLog:
    """Return a run's log; make it if the run has none yet."""
    if run.log is None:
        log = RunLog()
        # Handlers cannot set attributes of their job.
        object.__setattr__(run, "log", log)
        return log
    return run.log


def log_fields(run: LoggedRun) -> dict[str, Any]:
    """Return the fields by which a JSON line names its run."""
    more = run.log.fields if run.log is not None else {}
    return {"job": run.id, "work_type": run.work_type, "attempt": run.attempt, **more}
