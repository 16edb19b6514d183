"""The application of the scenarios: work that records its starts and ends."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from txqueue.errors import Suspended, TokenLost
from txqueue.model.directives import Snooze
from txqueue.model.job_policy import Retry
from txqueue.model.keys import Key
from txqueue.model.work_item import WorkItem
from txqueue_torture.recorder import FOLDER_VARIABLE, NODE_VARIABLE, Recorder, recorder

__all__ = ["KINDS", "Draw", "Note", "Order", "diary", "kind", "noted", "sleep_for"]

SOON: Final = Retry(attempts=1000, first=0.05, factor=1.5, longest=1.0)
GROUPS: Final = 4
"""How many groups the kind ``grouped`` uses: so few that each always has jobs."""
CUSTOMERS: Final = 9
"""How many groups the kind ``customer`` uses: so many that each has jobs only now and then."""
SCHEMA: Final = os.environ.get("TXQUEUE_SCHEMA", "txqueue")

_diary: Recorder | None = None


def diary() -> Recorder:
    """Return this process's recorder."""
    global _diary  # noqa: PLW0603 - opened at the first note, in the process that notes
    if _diary is None:
        _diary = recorder()
    return _diary


@define
class Note:
    """What `noted` records as the end of a run.

    Attributes:
        how: The text to record if the run ends without an exception.
    """

    how: str = "returned"


@contextmanager
def noted(job: Any, intent: str, group: str | None = None) -> Iterator[Note]:
    """Record the start and the end of a job's run."""
    diary().note("start", job, intent, group=group)
    note = Note()
    try:
        yield note
    except BaseException as error:
        note.how = _ending_of(error)
        raise
    finally:
        diary().note("end", job, intent, group=group, how=note.how)


def _ending_of(error: BaseException) -> str:
    known = {
        TokenLost: "token lost",
        CancelledError: "cancelled",
        Snooze: "snoozed",
        Suspended: "suspended",
    }
    return known.get(type(error), "raised")


def sleep_for(seconds: float) -> Deferred[None]:
    """Return a Deferred that fires after a number of seconds, by the reactor's clock."""
    from twisted.internet import reactor

    running: Any = reactor
    return deferLater(running, seconds, lambda: None)


@define
class Noop(WorkItem):
    """Work that does nothing but record its run."""

    intent: str

    work_type = "txqueue_torture.noop"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run."""
        with noted(job, self.intent):
            pass


@define
class Slow(WorkItem):
    """Work that takes a given number of seconds."""

    intent: str
    seconds: float

    work_type = "txqueue_torture.slow"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run, and sleep."""
        with noted(job, self.intent):
            await sleep_for(self.seconds)


@define
class Heavy(Slow):
    """Work that takes a given number of seconds, with a weight of three."""

    work_type = "txqueue_torture.heavy"
    weight = 3


@define
class Grouped(WorkItem):
    """Work in a group, which takes a given number of seconds."""

    intent: str
    key: str
    seconds: float

    work_type = "txqueue_torture.grouped"
    group = Key("{key}")
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run, and sleep."""
        with noted(job, self.intent, self.key):
            await sleep_for(self.seconds)


@define
class Effect(WorkItem):
    """Work that writes a row in the transaction that completes its job."""

    intent: str
    seconds: float

    work_type = "txqueue_torture.effect"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run; write a row, sleep, and commit."""
        with noted(job, self.intent) as note:
            async with job.transaction() as txn:
                await txn.execute(
                    f"insert into {SCHEMA}.torture_effect values (%s, %s)", (job.id, self.intent)
                )
                await sleep_for(self.seconds)
            note.how = "committed"


@define
class Failing(WorkItem):
    """Work that fails a number of times before it succeeds."""

    intent: str
    times: int

    work_type = "txqueue_torture.failing"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run; fail in the first attempts, succeed in a later one."""
        with noted(job, self.intent):
            if job.attempt <= self.times:
                raise ValueError("not yet")


@define
class Stumbling(Slow):
    """Work that takes a given number of seconds, and then fails if it ran on the node `on`."""

    on: str

    work_type = "txqueue_torture.stumbling"

    async def perform(self, job: Any) -> None:
        """Record the run and sleep; then fail on one node, succeed on any other."""
        with noted(job, self.intent):
            await sleep_for(self.seconds)
            if diary().node == self.on:
                raise ValueError("not here")


@define
class Lingering(Slow):
    """Work that takes a given number of seconds on the node `on`, and 50 ms on any other."""

    on: str
    key: str | None = None

    work_type = "txqueue_torture.lingering"
    group = Key("{key}")

    async def perform(self, job: Any) -> None:
        """Record the run, and sleep."""
        with noted(job, self.intent, self.key):
            await sleep_for(self.seconds if diary().node == self.on else 0.05)


@define
class Expiring(Slow):
    """Work that is cancelled if it has not started by its ``not_after``."""

    work_type = "txqueue_torture.expiring"
    expires = True


@frozen
class Draw:
    """What a client passes to the function of a kind of work, which makes an `Order`.

    Attributes:
        intent: The client's name for the job.
        number: Which of the client's orders this is, counted from 0.
        now: Seconds since 1970 by the database's clock.
        value: The argument after the kind's name, as in ``slow:2``; empty for none.
    """

    intent: str
    number: int
    now: float
    value: str = ""

    def seconds(self, most: float) -> float:
        """Return the argument as seconds; without one, a random number from 0 to `most`."""
        return float(self.value) if self.value else random.uniform(0, most)

    def later(self, seconds: float) -> datetime:
        """Return the time a number of seconds from now, by the database's clock."""
        return datetime.fromtimestamp(self.now + seconds, UTC)


@frozen
class Order:
    """A client's order: what to enqueue, and how.

    Attributes:
        work: The work item.
        options: The options of ``enqueue()``.
        way: ``plain``; ``transaction``: enqueue in a transaction; ``roll back``: enqueue in a
            transaction that is rolled back; ``refuse``: enqueue what the database refuses.
    """

    work: WorkItem
    options: dict[str, Any] = field(factory=dict)
    way: str = "plain"


KINDS: Final[dict[str, Callable[[Draw], Order]]] = {}
"""The functions that make an `Order` of each kind of work, by the kind's name."""


def kind(name: str) -> Callable[[Callable[[Draw], Order]], Callable[[Draw], Order]]:
    """Register the decorated function, which makes an `Order`, as a kind of work."""

    def register(make: Callable[[Draw], Order]) -> Callable[[Draw], Order]:
        KINDS[name] = make
        return make

    return register


@kind("noop")
def _noop(draw: Draw) -> Order:
    return Order(Noop(draw.intent))


@kind("slow")
def _slow(draw: Draw) -> Order:
    return Order(Slow(draw.intent, draw.seconds(0.3)))


@kind("heavy")
def _heavy(draw: Draw) -> Order:
    return Order(Heavy(draw.intent, draw.seconds(0.2)))


@kind("grouped")
def _grouped(draw: Draw) -> Order:
    return Order(Grouped(draw.intent, f"g{draw.number % GROUPS}", draw.seconds(0.05)))


@kind("customer")
def _customer(draw: Draw) -> Order:
    return Order(Grouped(draw.intent, f"c{draw.number % CUSTOMERS}", draw.seconds(0.05)))


@kind("effect")
def _effect(draw: Draw) -> Order:
    return Order(Effect(draw.intent, draw.seconds(0.1)), way="transaction")


@kind("failing")
def _failing(draw: Draw) -> Order:
    return Order(Failing(draw.intent, int(draw.seconds(3))))


@kind("stumbling")
def _stumbling(draw: Draw) -> Order:
    return Order(Stumbling(draw.intent, 3.0, draw.value))


@kind("lingering")
def _lingering(draw: Draw) -> Order:
    return Order(Lingering(draw.intent, 10.0, draw.value))


@kind("lingering_group")
def _lingering_group(draw: Draw) -> Order:
    return Order(Lingering(draw.intent, 10.0, draw.value, "lingering"))


@kind("delayed")
def _delayed(draw: Draw) -> Order:
    return Order(Noop(draw.intent), {"not_before": draw.later(draw.seconds(2))})


@kind("expiring")
def _expiring(draw: Draw) -> Order:
    return Order(Expiring(draw.intent, 0.05), {"not_after": draw.later(draw.seconds(1))})


@kind("rolled_back")
def _rolled_back(draw: Draw) -> Order:
    return Order(Noop(draw.intent), way="roll back")


@kind("refused")
def _refused(draw: Draw) -> Order:
    return Order(Noop(draw.intent), {"priority": 99}, way="refuse")


# Record that this process has imported the application.
if FOLDER_VARIABLE in os.environ and NODE_VARIABLE in os.environ:
    diary().write("up", node=os.environ[NODE_VARIABLE], pid=os.getpid(), began=time.monotonic())
