"""The log of a run, and counts of what runs did by work type."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

from attrs import Factory, define, field

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


T = TypeVar("T", bound=Hashable)

RUN_BOUNDS: Final = (
    *(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0),
    *(300.0, 900.0, 3600.0, 14_400.0),
)
"""Upper bounds in seconds of the time that a handler runs: 1 ms to 4 h."""

WAIT_BOUNDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
    *(2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
"""Upper bounds in seconds of the time that a job waits until its start: 1 ms to 1 h."""

STATEMENT_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Upper bounds in seconds of the time that a statement takes."""


@define
class Histogram:
    """How many observations lie up to each of some bounds.

    Attributes:
        bounds: The upper bounds, ascending; larger observations are counted behind the last.
        counts: How many observations lie in each interval, one more than there are bounds.
        total: The sum of the observations.
    """

    bounds: Sequence[float]
    counts: list[int] = field()
    total: float = 0.0

    @counts.default
    def _none(self) -> list[int]:
        return [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Count an observation, or several of the same value."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def add(self, counts: Iterable[int], total: float) -> None:
        """Add the observations of another histogram with the same bounds."""
        self.counts = [one + other for one, other in zip(self.counts, counts, strict=True)]
        self.total += total


@define
class RunTally:
    """What jobs did, by work type.

    Attributes:
        started: How many runs started.
        ended: How many runs ended, by work type and outcome.
        runs: How long handlers ran, in seconds.
    """

    started: Counter[str] = field(factory=Counter)
    ended: Counter[tuple[str, str]] = field(factory=Counter)
    runs: dict[str, Histogram] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.started or self.ended or self.runs)

    def ran(self, work_type: str, seconds: float, times: int = 1) -> None:
        """Count runs of a work type that took some seconds each."""
        if work_type not in self.runs:
            self.runs[work_type] = Histogram(RUN_BOUNDS)
        self.runs[work_type].observe(seconds, times)

    def burst(self, started: Sequence[str], waiting: Sequence[str], seconds: float) -> None:
        """Count runs that started one after the other; each counts the mean of their time.

        Args:
            started: The work type of each run.
            waiting: The work types of those that go on after `seconds`; `ran` counts them later.
            seconds: How long all of them took together.
        """
        over = counted(started)
        for work_type, times in over.items():
            self.started[work_type] += times
        for work_type in waiting:
            over[work_type] -= 1
        for work_type, times in over.items():
            if times > 0:
                self.ran(work_type, seconds / len(started), times)

    def take(self) -> str:
        """Return the counts as JSON text, and count from zero again."""
        counts = {
            "started": dict(self.started),
            "ended": [[*key, times] for key, times in self.ended.items()],
            "runs": {name: [runs.counts, runs.total] for name, runs in self.runs.items()},
        }
        self.started, self.ended, self.runs = Counter(), Counter(), {}
        return json.dumps(counts)

    def add(self, text: str) -> None:
        """Add the counts that `take` has returned, in this or in another process."""
        document: dict[str, Any] = json.loads(text)
        self.started.update(document["started"])
        for work_type, outcome, times in document["ended"]:
            self.ended[work_type, outcome] += times
        for name, (counts, total) in document["runs"].items():
            self.runs.setdefault(name, Histogram(RUN_BOUNDS)).add(counts, total)


def counted(names: Sequence[T]) -> dict[T, int]:
    """Return how often each name occurs; fast where all are the same, as most often."""
    if names and names.count(names[0]) == len(names):
        return {names[0]: len(names)}
    return dict(Counter(names))
