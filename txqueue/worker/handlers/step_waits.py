"""The waits of a run's steps, and when the run ends for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from attrs import frozen
from twisted.internet.defer import Deferred

from txqueue.errors import Suspended
from txqueue.model.job_policy import Runtime
from txqueue.model.run_log import RUNNING
from txqueue.model.work_item import find_work_type
from txqueue.store.driver.awaitables import awaitable
from txqueue.worker.handlers.job_transaction import StepStore
from txqueue.worker.handlers.running_job import RunningJob, handler_of

GRACE: Final = 0.02
"""Seconds that a wait leaves to others of its run, of which one has ended, to begin a step."""
TURNS: Final = 16
"""Turns of the reactor after which a handler has gone on once what it awaits has ended: each task
of asyncio's between them takes two; Deferreds take none."""
_ENCLOSING: Final[ContextVar[tuple[object, frozenset[str]]]] = ContextVar(
    "_ENCLOSING", default=(None, frozenset())
)
"""The steps whose functions call this, and the run of which they are."""
_TOLD: Final[ContextVar[object]] = ContextVar("_TOLD", default=None)
"""The run of which this task has got `Suspended`."""


@frozen(eq=False)
class _Parked:
    """A wait that its caller awaits.

    Attributes:
        ending: Ends it when it fires.
        enclosing: The steps whose functions call it.
        turns: How often the handler had gone on when this began.
        is_of_task: Whether a task of asyncio's awaits it.
        is_of_handler: Whether a handler in a thread blocks its own thread for it.
    """

    ending: Deferred[None]
    enclosing: frozenset[str]
    turns: int | None
    is_of_task: bool
    is_of_handler: bool


class StepWaits:
    """The waits of one run; the run ends for them once no other step goes on.

    A wait that is cancelled is withdrawn. So are those that the handler does not await when it
    ends, and those that it has not awaited when they ended: it goes on.

    Args:
        job: The job.
        store: Has the pause before the end.

    Attributes:
        given: What the run waits for, as `suspend_job` takes it.
        has_told: Whether a wait has ended by `Suspended`, on whose way calls are dropped.
        is_over: Whether the run ends for that, whatever its handler does yet.
    """

    def __init__(self, job: RunningJob, store: StepStore) -> None:
        self._job = job
        self._store = store
        self._going_on: set[str] = set()
        self._parked: list[_Parked] = []
        self._is_concurrent = False
        self._is_looking = False
        self._is_closed = False
        self.given: list[dict[str, Any]] = []
        self.has_told = False
        self.is_over = False

    def check(self) -> None:
        """Refuse a step that begins once the run ends.

        Raises:
            Suspended: When the run ends for a wait, or this task knows that.
        """
        if self.is_over or _TOLD.get() is self:
            raise Suspended(f"job {self._job.id} waits for {self.given[0]['name']!r}")

    @contextmanager
    def going_on(self, name: str) -> Iterator[None]:
        """Have the waits of this run not end it before the step of this name has ended."""
        self._is_concurrent |= bool(self._going_on or self._parked)
        self._going_on.add(name)
        try:
            yield
        finally:
            self._going_on.discard(name)
            self._look()

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Note that the function of a step runs in the block, which may itself call steps."""
        enclosing = self._enclosing()
        _ENCLOSING.set((self, enclosing | {name}))
        try:
            yield
        finally:
            _ENCLOSING.set((self, enclosing))

    def _enclosing(self) -> frozenset[str]:
        # Timers of the reactor have the context of what has set them, perhaps another run.
        run, names = _ENCLOSING.get()
        return names if run is self else frozenset()

    async def suspend(self, hold_group: bool, **wait: Any) -> NoReturn:
        """End the run for a wait, once no other step goes on."""
        if hold_group:
            wait["hold_group"] = True
        wait = {name: value for name, value in wait.items() if value is not None}
        self.given.append(wait)
        self._going_on.discard(wait["name"])
        await self._end(wait)
        _TOLD.set(self)
        _keep_quiet()
        raise Suspended(
            f"job {self._job.id} waits for {wait['name']!r}: let this exception through"
        )

    async def _end(self, wait: dict[str, Any]) -> None:
        """Wait until the run ends for a wait; withdraw it if it is cancelled before."""
        if self.is_over or _TOLD.get() is self:
            return
        ending: Deferred[None] = Deferred()
        awaited = awaitable(ending)
        runtime = find_work_type(self._job.work_type).runtime
        # Threads that a function starts have a context of their own.
        is_of_handler = runtime is Runtime.THREAD and RUNNING.get() is self._job
        self._is_concurrent |= runtime is Runtime.THREAD and not is_of_handler
        parked = _Parked(
            ending, self._enclosing(), self._turns(), awaited is not ending, is_of_handler
        )
        self._parked.append(parked)
        self._look()
        if self._is_closed:
            self.close()
        try:
            await awaited
        except BaseException:
            if parked in self._parked:
                self._parked.remove(parked)
                self.given.remove(wait)
            raise

    def _look(self) -> None:
        if self._rests and not self._is_looking:
            self._is_looking = True
            Deferred.fromCoroutine(self._end_waits())

    @property
    def _rests(self) -> bool:
        """Whether all that goes on waits, or is a step whose function waits."""
        enclosing = frozenset[str]().union(*(parked.enclosing for parked in self._parked))
        return bool(self._parked) and self._going_on <= enclosing

    async def _end_waits(self) -> None:
        await self._store.pause(GRACE if self._is_concurrent else 0)
        if any(parked.is_of_task for parked in self._parked):
            await self._pass_on(lambda: self._rests)
        if self._rests and not self._is_closed:
            await self._tell()
        self._is_looking = False
        self._look()

    async def _tell(self) -> None:
        """End the waits; the run is over if the handler has awaited one of them."""
        self.has_told = True
        parked, self._parked = self._parked, []
        turns, is_of_tasks = self._turns(), any(each.is_of_task for each in parked)
        # A handler that has gone on since, and goes on now, may have waited for something else.
        self.is_over = not is_of_tasks or any(each.turns == turns for each in parked)
        for each in parked:
            each.ending.callback(None)
        if turns is None or any(each.is_of_handler for each in parked):
            return
        if is_of_tasks and self.is_over:
            await self._pass_on(lambda: self._turns() == turns)
        self.is_over &= self._turns() != turns

    async def _pass_on(self, goes_on: Callable[[], bool]) -> None:
        """Have tasks pass on what has ended, while something holds."""
        left = TURNS
        while left and goes_on():
            await self._store.pause(0)
            left -= 1

    def _turns(self) -> int | None:
        """Return how often the handler has gone on; None if that is not known."""
        handler = handler_of(self._job)
        return None if handler is None else handler.turns()

    def close(self) -> None:
        """Withdraw, in silence, the waits that the handler has left behind."""
        self._is_closed = True
        parked, self._parked = self._parked, []
        for each in parked:
            # What awaits Deferreds only is freed, as nothing refers to it any more.
            if each.is_of_task:
                each.ending.errback(asyncio.CancelledError())


def _keep_quiet() -> None:
    """Have asyncio not report that nothing has awaited this task."""
    with suppress(RuntimeError):
        if task := asyncio.current_task():
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
