"""Waits for jobs to end: one question for all who wait."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from attrs import fields
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from txqueue import Job, State
from txqueue.aio.environment import AsyncEndWaiter
from txqueue.client.waiting import EndWaiter
from txqueue.policy.awaited_ends import FIRST, LONGEST, job_ids_in
from txqueue.standalone.requests import Target


def job_in(state: State, job_id: int) -> Job:
    """A job in a state, whose result is its number."""
    values: dict[str, Any] = {field.name: None for field in fields(Job)}
    return Job(**values | {"id": job_id, "state": state, "result": job_id})


class Asked:
    """Answers questions, and remembers them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.waiting = EndWaiter(self.clock, self.ask)
        self.questions: list[list[int]] = []
        self.ended: set[int] = set()
        self.gone: set[int] = set()
        self.error: Exception | None = None

    def wait(self, job_id: int) -> Deferred[Any]:
        """Wait as a caller whose job has not ended."""
        waiter = self.waiting.ended(job_id)
        self.waiting.look_soon()
        return waiter

    async def ask(self, job_ids: Sequence[int]) -> list[Job]:
        """Return those that are there."""
        self.questions.append(sorted(job_ids))
        if self.error is not None:
            raise self.error
        states = dict.fromkeys(self.ended, State.DONE)
        there = [job_id for job_id in job_ids if job_id not in self.gone]
        return [job_in(states.get(job_id, State.READY), job_id) for job_id in there]


async def test_one_question_for_all() -> None:
    """For all waiting callers, even two for the same job."""
    asked = Asked()
    waits = [asked.wait(job_id) for job_id in (1, 2, 2)]
    asked.ended = {1, 2}
    asked.clock.advance(FIRST)
    assert asked.questions == [[1, 2]]
    assert [(await wait).result for wait in waits] == [1, 2, 2]
    assert asked.clock.getDelayedCalls() == []


async def test_a_caller_learns_that_its_job_is_gone() -> None:
    """An operator may delete it meanwhile."""
    asked = Asked()
    wait, other = asked.wait(1), asked.wait(2)
    asked.gone = {1}
    asked.clock.advance(FIRST)
    assert await wait is None
    assert not other.called
    asked.waiting.stop()
    with pytest.raises(CancelledError):
        await other


async def test_the_longer_the_rarer() -> None:
    """Questions come at growing pauses, up to a bound, until the job has ended."""
    asked = Asked()
    wait = asked.wait(1)
    moments = []
    while asked.clock.seconds() < 20:
        before = len(asked.questions)
        asked.clock.advance(0.005)
        if len(asked.questions) > before:
            moments.append(asked.clock.seconds())
    pauses = [after - before for before, after in pairwise(moments)]
    assert all(second >= first - 0.01 for first, second in pairwise(pauses))
    assert max(pauses) <= LONGEST + 0.01
    asked.ended = {1}
    asked.clock.advance(LONGEST)
    assert (await wait).id == 1


async def test_who_comes_later_is_asked_for_soon() -> None:
    """However long the others have waited already."""
    asked = Asked()
    first = asked.wait(1)
    asked.clock.pump([0.1] * 50)
    second = asked.wait(2)
    asked.ended = {2}
    asked.clock.advance(FIRST)
    assert (await second).id == 2
    first.cancel()
    with pytest.raises(CancelledError):
        await first
    assert asked.clock.getDelayedCalls() == []


async def test_an_error_ends_the_waits() -> None:
    """All of them; new ones start another query."""
    asked = Asked()
    asked.error = ValueError("mine")
    waits = [asked.wait(1), asked.wait(2)]
    asked.clock.advance(FIRST)
    for wait in waits:
        with pytest.raises(ValueError, match="mine"):
            await wait
    asked.error = None
    asked.ended = {3}
    again = asked.wait(3)
    asked.clock.advance(FIRST)
    assert (await again).id == 3


async def test_a_notified_caller_may_cancel_the_others() -> None:
    """The other callers are notified, and no query is lost."""
    asked = Asked()
    first, second, third = (asked.wait(number) for number in (1, 1, 2))
    first.addCallback(lambda _: second.cancel())
    asked.ended = {1}
    asked.clock.advance(FIRST)
    with pytest.raises(CancelledError):
        await second
    asked.ended = {2}
    asked.clock.advance(LONGEST)
    assert (await third).id == 2


async def test_stopping_cancels_all_waits() -> None:
    """And leaves no timer."""
    asked = Asked()
    waits: list[Deferred[Job | None]] = [asked.wait(1), asked.wait(1)]
    asked.waiting.stop()
    for wait in waits:
        with pytest.raises(CancelledError):
            await wait
    assert asked.clock.getDelayedCalls() == []


async def test_an_announced_end_causes_a_query_at_once() -> None:
    """Only announced ends of awaited jobs cause an early query."""
    asked = Asked()
    wait = asked.wait(1)
    asked.clock.pump([0.1] * 200)
    before = len(asked.questions)
    asked.ended = {1}
    asked.waiting.note_ends(frozenset({2, 3}))
    asked.clock.advance(FIRST)
    assert len(asked.questions) == before
    asked.waiting.note_ends(frozenset({1, 2}))
    asked.clock.advance(FIRST)
    assert (await wait).id == 1
    assert asked.clock.getDelayedCalls() == []


@pytest.mark.parametrize("text", ["", "x", "1,", "1;2", "-1", "²", "9" * 5_000])
def test_a_notification_without_numbers_may_mean_any(text: str) -> None:
    """Any session may send any text."""
    assert job_ids_in(text) is None


async def test_an_end_that_may_be_any_makes_all_ask() -> None:
    """Too many jobs ended at once to be named."""
    asked = Asked()
    wait = asked.wait(1)
    asked.clock.pump([0.1] * 200)
    asked.ended = {1}
    asked.waiting.note_ends(job_ids_in(""))
    asked.clock.advance(FIRST)
    assert (await wait).id == 1
    assert job_ids_in("12,7") == frozenset({7, 12})


def test_without_waiting_callers_no_query_is_sent() -> None:
    """What ends meanwhile is nothing to us."""
    asked = Asked()
    asked.waiting.note_ends(None)
    asked.clock.advance(10)
    assert not asked.questions


async def test_those_who_begin_to_wait_share_a_read() -> None:
    """One statement finds the jobs of all; each caller gets its job, None or the error."""
    asked = Asked()
    asked.gone = {3}
    reads = [asked.waiting.read(number) for number in (1, 2, 2, 3)]
    asked.clock.advance(0)
    assert [job and job.id for job in [await read for read in reads]] == [1, 2, 2, None]
    asked.error = ValueError("mine")
    reads = [asked.waiting.read(number) for number in (1, 2)]
    asked.clock.advance(0)
    for read in reads:
        with pytest.raises(ValueError, match="mine"):
            await read
    assert asked.questions == [[1, 2, 3], [1, 2]]


async def test_without_twisted_a_read_is_shared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """By all calls of one turn of the loop; the next turn has a read of its own."""
    asked = Asked()
    asked.gone = {3}
    monkeypatch.setattr(AsyncEndWaiter, "jobs_of", lambda _, job_ids: asked.ask(job_ids))

    async def test() -> None:
        waiting = AsyncEndWaiter(cast("Any", None), Target("", None, "txqueue", 4, 30.0))
        for _ in range(2):
            found = await asyncio.gather(*(waiting.read(number, 0) for number in (1, 2, 2, 3)))
            assert [job and job.id for job in found] == [1, 2, 2, None]

    await Deferred.fromFuture(asyncio.ensure_future(test()))
    assert asked.questions == [[1, 2, 3], [1, 2, 3]]
