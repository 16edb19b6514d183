"""Whatever exceptions and results of handlers do, each job ends, and no other is affected."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, succeed

from tests.unit.worker.hostile import ACTS, NAMES, PROPERTIES, hostile_classes
from tests.unit.worker.performing import Handled, Harness, entry
from tests.waiting import eventually
from txqueue import Discard, Fail, Next, RunningJob, Runtime, Snooze, WorkItem
from txqueue.model import directives as failed_attempt
from txqueue.model.directives import FailedAttempt


@define
class Innocent(WorkItem):
    """Does nothing."""

    work_type = "hostile.innocent"

    number: int

    async def perform(self, job: RunningJob) -> None:
        """Do nothing."""


ERRORS = hostile_classes(
    Exception, ValueError, BaseException, ExceptionGroup, Snooze, Discard, Fail
)
RESULTS = hostile_classes(object, dict, list, str, int, Deferred, Snooze, Next, Exception)
EACH_ALONE = [
    *(type("Odd", (Exception,), {name: act}) for name in NAMES for act in ACTS),
    *(type("Odd", (Exception,), {name: property(act)}) for name in PROPERTIES for act in ACTS),
]


def made(cls: Any) -> Any:
    """An instance, without its own `__init__`: that would be the handler's error."""
    arguments = ("several", [ValueError("one")]) if issubclass(cls, ExceptionGroup) else ()
    return cls.__new__(cls, *arguments)


def chained(error: Any, cause: Any) -> Any:
    """The same error, raised because of another."""
    vars(BaseException)["__cause__"].__set__(error, cause)
    return error


@pytest.fixture(autouse=True)
def tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application's hook that looks at each error, as an error tracker does."""

    def look(failed: FailedAttempt) -> None:
        str(failed.error)
        bool(failed.error)
        raise failed.error

    monkeypatch.setattr(failed_attempt, "_hooks", [look])


def ends(harness: Harness) -> dict[int, str]:
    """How each job has ended."""
    done = {number: "done" for _, _, numbers, _, _ in harness.finished for number in numbers}
    return done | {each["job_id"]: each["outcome"] for each in harness.settled}


def ends_now(harness: Harness) -> dict[int, str]:
    """The same, once the performer has reported what has ended."""
    harness.turn()
    return ends(harness)


def assert_one_ends_beside_another(harness: Harness) -> None:
    """Perform a job by the handler that is set, and an innocent one with it."""
    harness.hand(5, Handled.entry(1), entry(2, Innocent.work_type))
    harness.turn()
    assert ends(harness)[2] == "done"


@given(ERRORS, ERRORS, st.booleans())
@settings(max_examples=150)
def test_a_job_ends_whatever_its_error_does(cls: type, other: type, later: bool) -> None:
    """Raised at once or after a wait; the reason is stored, and the log has a line."""
    harness = Harness()

    async def perform(_: object, job: RunningJob) -> None:
        if later:
            await harness.wait(job)
        raise chained(made(cls), made(other))

    with harness.handler(perform):
        assert_one_ends_beside_another(harness)
        harness.end_all()
    assert ends(harness)[1] in ("retry", "failed", "cancelled")


@pytest.mark.parametrize("cls", EACH_ALONE)
def test_the_text_of_an_error_is_kept(cls: type) -> None:
    """What it was, and where it was raised."""
    harness = Harness()

    def perform(*_: object) -> None:
        raise made(cls)

    with harness.handler(perform):
        assert_one_ends_beside_another(harness)
    (settled,) = harness.settled
    assert settled["outcome"] == "retry"
    assert "Odd" in settled["error"]
    assert "raise made(cls)" in settled["error"]
    assert settled["error_class"].endswith(".Odd")


@given(RESULTS, st.sampled_from(["now", "later", "deferred"]), st.booleans())
@settings(max_examples=150)
def test_a_job_ends_whatever_its_result_does(cls: type, when: str, has_progress: bool) -> None:
    """Returned at once, after a wait or by a Deferred; with progress to store, or without."""
    harness = Harness()

    async def perform(_: object, job: RunningJob) -> Any:
        if has_progress:
            job.progress(1, 2, "a\0b\ud800")
        if when == "later":
            await harness.wait(job)
        return made(cls)

    with harness.handler(perform if when != "deferred" else lambda *_: succeed([made(cls)])):
        assert_one_ends_beside_another(harness)
        harness.end_all()
    assert 1 in ends(harness)


@given(st.one_of(ERRORS, RESULTS), st.sampled_from([Runtime.ASYNCIO, Runtime.THREAD]))
@settings(max_examples=100)
async def test_a_job_of_another_runtime_ends(cls: type, runtime: Runtime) -> None:
    """No object of a handler passes through asyncio's or Twisted's machinery for threads."""
    harness = Harness()
    performed: list[type] = []

    def perform(*_: object) -> Any:
        performed.append(cls)
        it = made(cls)
        if issubclass(cls, BaseException):
            raise it
        return it

    async def perform_in_asyncio(*_: object) -> Any:
        return perform()

    Handled.runtime = runtime
    try:
        with harness.handler(perform_in_asyncio if runtime is Runtime.ASYNCIO else perform):
            assert_one_ends_beside_another(harness)
            if runtime is Runtime.THREAD:
                harness.thread.end()
            await eventually(lambda: 1 in ends_now(harness), 10)
    finally:
        del Handled.runtime
    assert 1 in ends(harness)
    assert performed == [cls]


NAMES_OF_A_JOB = [
    *("id", "attempt", "weight", "work_type", "assignment", "token", "key", "terms", "result"),
    *(
        "is_completed",
        "cancelled_by",
        "is_ended",
        "follow_ups",
        "within",
        "log",
        "span",
        "__class__",
    ),
    *("is_cancelled", "note"),
]


@pytest.mark.parametrize("name", NAMES_OF_A_JOB)
def test_a_handler_cannot_change_its_job(name: str) -> None:
    """Its end would be reported for another job, and itself run again without end."""
    harness = Harness()
    refused: list[str] = []

    def perform(_: object, job: RunningJob) -> None:
        for change in (lambda: setattr(job, name, 8), lambda: delattr(job, name)):
            with pytest.raises(AttributeError) as caught:
                change()
            refused.append(str(caught.value))

    with harness.handler(perform):
        assert_one_ends_beside_another(harness)
    assert ends(harness) == {1: "done", 2: "done"}
    assert f"a handler cannot set job.{name}" in refused[0]


def test_progress_may_have_any_note() -> None:
    """What PostgreSQL cannot store is replaced."""
    harness = Harness()

    def perform(_: object, job: RunningJob) -> None:
        job.progress(1, 2, "a\0b\ud800c")

    with harness.handler(perform):
        assert_one_ends_beside_another(harness)
    (settled,) = harness.settled
    assert settled["progress"] == [1, 2, "a\ufffdb?c"]
