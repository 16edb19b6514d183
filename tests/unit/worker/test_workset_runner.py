"""Working through a workset: how its handlers end, whatever runtime they are of."""

import asyncio
from typing import Any, cast

import pytest
from attrs import define
from twisted.internet.defer import CancelledError, Deferred

from tests.waiting import running_reactor
from txqueue import Runtime, WorksetItem
from txqueue.model.assignment import AssignedJob, Assignment
from txqueue.store.worksets import NextPart, Part, Parts
from txqueue.worker.running_job import HeldAssignment, begun
from txqueue.worker.workset_runner import WorksetWork


@define
class Slow(WorksetItem):
    """Never ends, or ends its process."""

    deadly: bool

    runtime = Runtime.ASYNCIO

    async def perform(self, job: Any) -> None:
        """Do one of them."""
        if self.deadly:
            raise SystemExit(3)
        BEGUN[0].callback(None)
        await asyncio.sleep(60)


BEGUN: list[Deferred[None]] = []


class OnePart:
    """A workset with one part, and then nothing."""

    def __init__(self, content: str) -> None:
        self.content: str | None = content
        self.counted: list[Any] = []

    async def next(self, cls: object, token: object, job_id: object, performed: Any) -> NextPart:
        """Hand it out once."""
        if performed is not None:
            self.counted += performed.failures
        content, self.content = self.content, None
        part = None if content is None else Part(1, None, None, None, 1, 0, 1, content)
        return NextPart(held=True, part=part, due_in=None)

    async def end(self, *_: object) -> bool:
        """It has ended."""
        return True


def work_through(parts: OnePart) -> Deferred[Any]:
    """Begin to work through it."""
    assigned = AssignedJob(7, "pooling.job", 1, 1, {})
    job = begun(assigned, HeldAssignment(Assignment(1, 1, 0, 1, 1, "")), cast("Any", None))
    work = WorksetWork(running_reactor(), cast("Any", None), cast("Parts", parts))
    return Deferred.fromCoroutine(work.work_through(Slow, job))


async def test_a_cancelled_job_ends_whatever_its_items_wait_for() -> None:
    """Those of asyncio as well: they are not taken for failed, and nothing more is taken."""
    BEGUN[:] = [Deferred()]
    parts = OnePart('[{"deadly": false}]')
    working = work_through(parts)
    await BEGUN[0]
    working.cancel()
    with pytest.raises(CancelledError):
        await working
    assert parts.counted == []


async def test_an_item_that_exits_has_failed() -> None:
    """The process and its other jobs continue."""
    parts = OnePart('[{"deadly": true}]')
    assert await work_through(parts) is None
    (failed,) = parts.counted
    assert "SystemExit" in failed["error"]
