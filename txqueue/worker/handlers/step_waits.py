"""The waits of a run's steps, and when the run ends for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from twisted.internet.defer import Deferred

from txqueue.errors import Suspended
from txqueue.store.driver.awaitables import awaitable
from txqueue.worker.handlers.step_store import StepStore

__all__ = ["StepWaits"]

GRACE: Final = 0.02
"""Seconds that a wait leaves to others of its run, of which one has ended, to begin a step."""
_ENCLOSING: Final[ContextVar[tuple[object, frozenset[str]]]] = ContextVar(
    "_ENCLOSING", default=(None, frozenset())
)
"""The steps whose functions call this, and the run of which they are."""


class StepWaits:
    """The waits of one run; the run ends for them once no other step goes on.

    Args:
        job_id: The number of the job.
        store: Has the pause before the end.

    Attributes:
        waits: What the run ends for, as `suspend_jobs` takes it.
    """

    def __init__(self, job_id: int, store: StepStore) -> None:
        self._job_id = job_id
        self._store = store
        self._going_on: set[str] = set()
        self._parked: list[tuple[Deferred[None], frozenset[str]]] = []
        self._is_concurrent = False
        self._is_looking = False
        self._is_over = False
        self.waits: list[dict[str, Any]] = []

    def check(self) -> None:
        """Refuse a step that begins once the run ends.

        Raises:
            Suspended: When the run ends for a wait.
        """
        if self._is_over:
            raise Suspended(f"job {self._job_id} waits for {self.waits[0]['name']!r}")

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
        self.waits.append({name: value for name, value in wait.items() if value is not None})
        self._going_on.discard(wait["name"])
        if not self._is_over:
            resting: Deferred[None] = Deferred()
            self._parked.append((resting, self._enclosing()))
            self._look()
            await awaitable(resting)
        raise Suspended(
            f"job {self._job_id} waits for {wait['name']!r}: let this exception through"
        )

    def _look(self) -> None:
        if self._rests and not self._is_looking:
            self._is_looking = True
            Deferred.fromCoroutine(self._end_waits())

    @property
    def _rests(self) -> bool:
        """Whether all that goes on waits, or is a step whose function waits."""
        enclosing = frozenset[str]().union(*(names for _, names in self._parked))
        return bool(self._parked) and self._going_on <= enclosing

    async def _end_waits(self) -> None:
        await self._store.pause(GRACE if self._is_concurrent else 0)
        self._is_looking = False
        if self._rests:
            self._is_over = True
            parked, self._parked = self._parked, []
            for resting, _ in parked:
                resting.callback(None)
