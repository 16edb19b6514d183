"""Work with durable steps, which records what each step returns, and sends itself signals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from attrs import define
from twisted.internet.defer import Deferred, gatherResults

from txqueue.errors import Suspended
from txqueue.model.job_policy import Retry
from txqueue.model.work_item import WorkItem
from txqueue.store.inquiries.reader import Session
from txqueue_torture.recorder import DSN_VARIABLE, FOLDER_VARIABLE
from txqueue_torture.unnoted import UNNOTED
from txqueue_torture.work import SCHEMA, SOON, Draw, Order, diary, kind, noted, sleep_for

__all__ = ["AGAIN", "BOOKED", "FIXED", "SIGNAL", "STEP", "STEPS", "Stepped", "SteppedOnce"]

SIGNAL: Final = "go"
STEP: Final = "step"
"""The name of the record of what a step has returned."""
BOOKED: Final = ("book", "book again")
"""The steps that write a row in their transaction."""
AGAIN: Final = "late"
"""The step from which failed jobs are done again."""
STEPS: Final = ("left", "right", "book", "go 1", "rest", "go 2", "child", AGAIN, "book again")
"""All steps of `Stepped`, in their order; of these, ``rest`` returns nothing."""
FIXED: Final = "fixed"
"""The file whose presence lets jobs succeed that would fail for good."""

# Seconds in which a sent signal is noticed everywhere, between the look for it and the suspension.
RACE: Final = 0.2
HELD: Final = 3.0

_sessions: list[Session] = []


class NotYet(Exception):
    """Fails a job for good."""


@define
class Called(WorkItem):
    """Work that another job calls."""

    parent: int

    work_type = f"{UNNOTED}_called"
    retry = SOON

    async def perform(self, job: Any) -> int:
        """Return a value that no other child returns."""
        return int(job.id)


@define
class Stepped(WorkItem):
    """Work of nine steps of all kinds; some of it fails for good at its end.

    Attributes:
        intent: The client's name for the job.
        fails: Whether it fails as long as there is no file `FIXED`.
    """

    intent: str
    fails: bool = False

    work_type = "txqueue_torture.stepped"
    retry = Retry(attempts=1000, first=0.05, factor=1.5, longest=1.0, fatal=(NotYet,))

    async def perform(self, job: Any) -> None:
        """Do all steps, and record what each returns."""
        with noted(job, self.intent):
            await _together(_kept(job, self.intent, name) for name in ("left", "right"))
            await _booked(job, self.intent, "book")
            await self._signalled(job, "go 1")
            await job.sleep("rest", RACE)
            await self._signalled(job, "go 2")
            _note(job, self.intent, "child", await job.call("child", Called(job.id)))
            await _kept(job, self.intent, AGAIN)
            await _booked(job, self.intent, "book again")
            if self.fails and not (Path(os.environ[FOLDER_VARIABLE]) / FIXED).exists():
                raise NotYet

    async def _signalled(self, job: Any, name: str) -> None:
        """Wait for a signal; send one to this job when the run has not found it and ends."""
        try:
            _note(job, self.intent, name, await job.wait_for(name, signal=SIGNAL))
        except Suspended:
            _session().value(f"select {SCHEMA}.signal(%s, %s, '\"own\"', 'own')", (job.id, SIGNAL))
            await sleep_for(RACE)
            raise


@define
class SteppedOnce(WorkItem):
    """Work of two slow steps at a time."""

    intent: str

    work_type = "txqueue_torture.stepped_once"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Do the steps, and record what each returns."""
        with noted(job, self.intent):
            await _together(
                [
                    _kept(job, self.intent, "left", HELD),
                    _booked(job, self.intent, "book", HELD),
                ]
            )


async def _kept(job: Any, intent: str, name: str, seconds: float = 0.0) -> None:
    _note(job, intent, name, await job.step(name, _slowly, job.token.assignment, seconds))


async def _slowly(value: int, seconds: float) -> int:
    if seconds:
        await sleep_for(seconds)
    return value


async def _booked(job: Any, intent: str, name: str, seconds: float = 0.0) -> None:
    async with job.step_transaction(name) as step:
        if not step.is_done:
            await step.txn.execute(
                f"insert into {SCHEMA}.torture_step values (%s, %s)", (job.id, name)
            )
            step.result = await _slowly(job.token.assignment, seconds)
    _note(job, intent, name, step.result)


async def _together(coroutines: Any) -> Sequence[None]:
    results: Sequence[None] = await gatherResults(
        [Deferred.fromCoroutine(each) for each in coroutines], consumeErrors=True
    )
    return results


def _note(job: Any, intent: str, name: str, value: object) -> None:
    diary().note(STEP, job, intent, name=name, value=value)


def _session() -> Session:
    """Return this process's session in the database."""
    if not _sessions:
        _sessions.append(Session(os.environ[DSN_VARIABLE], SCHEMA, "txqueue torture"))
    return _sessions[0]


@kind("stepped")
def _stepped(draw: Draw) -> Order:
    return Order(Stepped(draw.intent))


@kind("stepped_failing")
def _stepped_failing(draw: Draw) -> Order:
    return Order(Stepped(draw.intent, fails=True))


@kind("stepped_once")
def _stepped_once(draw: Draw) -> Order:
    return Order(SteppedOnce(draw.intent))
