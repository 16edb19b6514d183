"""`perform` runs a handler by the rules of a worker, without a database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from attrs import define

from txqueue import (
    Discard,
    Fail,
    Next,
    Retry,
    RunningJob,
    Runtime,
    Snooze,
    StepCursor,
    ThreadJob,
    WorkItem,
    task,
    testing,
)
from txqueue.errors import ConfigurationError, InvalidWork, TimedOut
from txqueue.model import directives as registered
from txqueue.policy.endings.reports import RESULT_LIMIT


@define
class Chosen(WorkItem):
    """Ends as its field says."""

    work_type = "unit.testing.chosen"
    retry = Retry(2, first=10, factor=1, jitter=0)

    way: str

    def perform(self, job: RunningJob) -> Any:
        """End in one of all ways."""
        match self.way:
            case "error":
                raise ValueError("no")
            case "snooze":
                raise Snooze(5)
            case "discard":
                return Discard("old")
            case "fail":
                return Fail("bad")
            case "next":
                return Next(Chosen("done"), queue="other")
            case "unfit":
                return object()
            case "then":
                job.then(Chosen("later"), priority=8)
        return {"way": self.way}


@pytest.mark.parametrize(
    ("way", "attempt", "kind", "delay", "reason"),
    [
        ("done", 1, "done", None, None),
        ("error", 1, "retry", 10.0, "ValueError: no"),
        ("error", 2, "failed", None, "ValueError: no"),
        ("snooze", 1, "snooze", 5.0, None),
        ("discard", 1, "cancelled", None, "old"),
        ("fail", 1, "failed", None, "bad"),
        ("next", 1, "next", None, None),
        ("unfit", 1, "failed", None, "the result is not JSON"),
    ],
)
def test_each_way_to_end(
    way: str, attempt: int, kind: str, delay: float | None, reason: str | None
) -> None:
    """The policy decides as on a node."""
    outcome = testing.perform(Chosen(way), attempt=attempt)
    assert (outcome.kind, outcome.delay) == (kind, delay)
    assert (outcome.reason or "").startswith(reason or "")
    assert outcome.stage == (Chosen("done") if way == "next" else None)


def test_the_error_is_the_handlers_own() -> None:
    """get() raises what the handler raised; other ends than done raise too."""
    with pytest.raises(ValueError, match="no") as raised:
        testing.perform(Chosen("error")).get()
    assert str(raised.traceback[-1].path) == __file__
    with pytest.raises(AssertionError, match="snooze"):
        testing.perform(Chosen("snooze")).get()


def test_follow_ups_are_returned() -> None:
    """What the handler adds with job.then() is not enqueued."""
    outcome = testing.perform(Chosen("then"))
    assert outcome.follow_ups == ((Chosen("later"), {"priority": 8}),)
    assert outcome.get() == {"way": "then"}


@task(name="unit.testing.see")
def see(job: RunningJob, values: list[int]) -> list[Any]:
    """Return what the handler sees."""
    return [values, dict(job.tags), job.attempt, job.is_cancelled]


def test_the_handler_sees_its_job() -> None:
    """The options are there, and the payload is what JSON has made of it."""
    values = [1, 2]
    outcome = testing.perform(see.work(values), attempt=3, tags={"a": "b"})
    assert outcome.get() == [values, {"a": "b"}, 3, False]


@define
class DjangoTask:
    """Has what a task of Django has."""

    module_path = "shop.tasks.send"


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (see, r"perform\(see\.work\(\.\.\.\)\)"),
        (DjangoTask(), r"perform\(txqueue\.django\.work\(send, \.\.\.\)\)"),
        (Chosen, "pass an instance"),
    ],
)
def test_a_task_without_arguments_is_refused(given: Any, remedy: str) -> None:
    """The error says how to make a work item of it."""
    with pytest.raises(TypeError, match=remedy):
        testing.perform(given)
    with pytest.raises(TypeError, match=remedy):
        testing.aperform(given).send(None)


def test_a_payload_that_json_cannot_carry_is_refused() -> None:
    """As enqueue would refuse it."""
    with pytest.raises(InvalidWork, match="values"):
        testing.perform(see.work("not a list"))


def test_middleware_is_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of threads runs, in the caller's thread."""
    monkeypatch.setattr(registered, "_registered", [])
    seen: list[str] = []

    @registered.middleware
    def around(call_next: Callable[[], Any], job: RunningJob) -> Any:
        seen.append(job.work_type)
        return call_next()

    testing.perform(see.work([]))
    assert seen == ["unit.testing.see"]


@define
class Writing(WorkItem):
    """Writes in its own transaction."""

    work_type = "unit.testing.writing"
    runtime = Runtime.TWISTED

    async def perform(self, job: RunningJob) -> None:
        """Open the transaction."""
        async with job.transaction():
            raise AssertionError("there is no database")


def test_a_transaction_needs_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, the handler's error says how to pass it."""
    monkeypatch.delitem(sys.modules, "django.conf", raising=False)
    outcome = testing.perform(Writing())
    assert isinstance(outcome.error, ConfigurationError)
    assert "connection=" in str(outcome.error)


WAITING = """
import asyncio
from attrs import define
from twisted.internet import reactor
from twisted.internet.task import deferLater
from txqueue import WorkItem, testing

@define
class Waits(WorkItem):
    work_type = "waits"

    async def perform(self, job):
        await deferLater(reactor, 0.01)

try:
    asyncio.run(testing.aperform(Waits()))
except TypeError as error:
    print(error)
"""


def test_a_timer_of_a_reactor_that_does_not_run_is_an_error() -> None:
    """Under asyncio.run() a handler that waits for Twisted would wait without end."""
    run = [sys.executable, "-c", WAITING]
    said = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)
    assert "waits for a timer of Twisted's reactor, which does not run" in said.stdout, said.stderr


@define
class Approved(WorkItem):
    """Waits for a person, and calls another job."""

    work_type = "unit.testing.approved"

    async def perform(self, job: RunningJob) -> Any:
        """Go through all kinds of steps."""
        charge = await job.step("charge", self.charge, retry=Retry(3, first=60))
        try:
            answer = await job.wait_for("approved", timeout=60)
        except TimedOut:
            return "too late"
        await job.sleep("cool off", 3600)
        pages = [page async for page in until(job.cursor("pages"), 2)]
        return [charge, answer, pages, await job.call("child", Chosen("child"))]

    def charge(self) -> str:
        """Charge the card."""
        return "ch_1"


@define
class ApprovedInAsyncio(Approved):
    """The same in asyncio."""

    work_type = "unit.testing.approved_in_asyncio"
    runtime = Runtime.ASYNCIO


async def until(cursor: StepCursor, last: int) -> AsyncIterator[int]:
    """Go on to a last position."""
    async for position in cursor:
        yield position
        cursor.following = position + 1 if position < last else None


async def here(work: WorkItem, **given: Any) -> testing.Outcome:
    """Perform without a reactor."""
    return testing.perform(work, **given)


@pytest.mark.parametrize(
    ("cls", "perform"),
    [(Approved, here), (Approved, testing.aperform), (ApprovedInAsyncio, testing.aperform)],
)
async def test_steps_in_memory(cls: type[WorkItem], perform: Any) -> None:
    """A run begins with the steps and signals that the test gives, and says where it waits."""
    first = await perform(cls())
    assert (first.kind, first.steps) == ("suspended", {"charge": "ch_1"})
    assert first.waits == {"approved": "signal"}
    second = await perform(cls(), steps=first.steps, signals={"approved": [7]})
    assert (second.steps, second.waits) == ({"approved": [7]}, {"cool off": "sleep"})
    done = {**first.steps, **second.steps, "cool off": None}
    third = await perform(cls(), steps=done)
    assert third.calls == {"child": Chosen("child")}
    assert third.waits == {"child": "call"}
    last = await perform(cls(), steps=done | {"child": {"way": "child"}})
    assert last.get() == ["ch_1", [7], [0, 1, 2], {"way": "child"}]
    late = await perform(cls(), steps={"approved": TimedOut("too late")})
    assert late.get() == "too late"


@task(name="unit.testing.retrying", runtime=Runtime.THREAD)
def retrying(job: ThreadJob) -> list[int]:
    """Fail twice in one step, which is tried again in place."""
    tries: list[int] = []

    def fails() -> None:
        tries.append(len(tries))
        if len(tries) < 3:
            raise ValueError("not yet")

    job.step("fails", fails, retry=Retry(3, first=60))
    return tries


def test_a_step_is_tried_again_without_its_delay() -> None:
    """A test waits for no time."""
    assert testing.perform(retrying.work()).get() == [0, 1, 2]


@task(name="unit.testing.verbose", runtime=Runtime.THREAD)
def verbose(job: ThreadJob, length: int, way: str) -> int:
    """Keep a long text as the result of a step."""
    if way == "cursor":
        for text in (cursor := job.cursor("text", start="x")):
            cursor.following = "x" * length if text == "x" else None
    else:
        job.step("text", str.ljust, "x", length)
    return length


@pytest.mark.parametrize("way", ["step", "cursor"])
def test_a_result_of_a_step_is_as_long_as_nodes_allow(way: str) -> None:
    """One that is too long for a node is too long for a test."""
    longest = RESULT_LIMIT - len('""')
    assert testing.perform(verbose.work(longest, way)).get() == longest
    outcome = testing.perform(verbose.work(longest + 1, way))
    assert "the result of step 'text' has" in str(outcome.error)


@define
class Free(WorkItem):
    """Takes any item."""

    work_type = "unit.testing.free"

    item: Any

    def perform(self, _: RunningJob) -> None:
        """Do nothing."""


def test_what_cannot_be_stored_has_the_path_of_enqueue() -> None:
    """Whatever else is sent with it."""
    with pytest.raises(InvalidWork, match=r"half a surrogate pair.* @ \$\.item"):
        testing.perform(Free("a\0b"))
