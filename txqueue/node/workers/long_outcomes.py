"""Writes single outcomes beside the others: long ones, and those of a refused statement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import deferLater
from twisted.logger import Logger

from txqueue.model.assignment import SettledJobs
from txqueue.policy.endings.reports import LONG
from txqueue.store.driver.errors import is_locked, is_passing
from txqueue.system.clock import Clock

# Tries of an outcome, each beside a short statement that succeeds, after which its job fails, and
# the seconds between them.
TRIES, PAUSE = 3, 5.0


@define(eq=False)
class _Outcome:
    report: SettledJobs
    tries: int = 0


@define(eq=False, repr=False, slots=False)
class LongOutcomes:
    """Writes outcomes, each by itself; one that is refused, or so long that it never ends in time,
    fails its job.

    Args:
        clock: Times the tries.
        write: Writes an outcome.
        fail: Lets the job of an outcome fail in its place, for a reason.
        probe: Runs a short statement, which raises an error if the database does not answer.
        ended: Called when an outcome is written.
    """

    log = Logger()

    _clock: Clock
    _write: Callable[[SettledJobs], Awaitable[None]]
    _fail: Callable[[SettledJobs, str], Awaitable[None]]
    _probe: Callable[[], Awaitable[None]]
    _ended: Callable[[], None]

    def __attrs_post_init__(self) -> None:
        self._lock = DeferredLock()
        self._unwritten: list[_Outcome] = []

    @property
    def unwritten(self) -> int:
        """The number of outcomes that are not written yet."""
        return len(self._unwritten)

    @property
    def assignments(self) -> set[int]:
        """The assignments of their jobs, and perhaps others."""
        return set().union(*(each.report.assignments for each in self._unwritten))

    def add(self, report: SettledJobs) -> None:
        """Write the outcome of one job."""
        outcome = _Outcome(report)
        self._unwritten.append(outcome)
        Deferred.fromCoroutine(self._try_often(outcome))

    async def _try_often(self, outcome: _Outcome) -> None:
        while not await self._lock.run(self._try, outcome):
            await deferLater(self._clock, PAUSE)  # type: ignore[arg-type]  # it needs callLater only
        self._unwritten.remove(outcome)
        self._ended()

    async def _try(self, outcome: _Outcome) -> bool:
        """Try once to write an outcome; return whether that is all that there is to do."""
        try:
            try:
                await self._write(outcome.report)
            except Exception as error:
                await self._fail(outcome.report, await self._why_never(outcome, error))
        except Exception as error:
            self.log.warn("an outcome is tried again by itself: {error}", error=error)
            return False
        return True

    async def _why_never(self, outcome: _Outcome, error: Exception) -> str:
        """Return why an outcome cannot be stored; raise the error if it may be tried again."""
        if not is_passing(error):
            return type(error).__name__
        # Perhaps it takes longer than a statement may. If the database does not answer at all, this
        # raises its error.
        await self._probe()
        outcome.tries += len(outcome.report.outcomes) > LONG and not is_locked(error)
        if outcome.tries < TRIES:
            raise error
        return f"it is so long that the database does not take it in time: {error}"
