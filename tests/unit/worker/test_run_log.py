"""Which job a line belongs to, in each runtime; and what is kept of a run that fails."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import succeed
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from tests.unit.logs.running import SecondRun, running
from tests.unit.worker.handlers.test_runtimes import begun_with
from tests.unit.worker.performing import Handled, Harness
from tests.waiting import running_reactor
from txqueue import Fail, Retry, RunningJob, Runtime, Snooze
from txqueue.logs.lines import keep_event
from txqueue.model.run_log import RUNNING
from txqueue.worker.handlers.threads import HandlerThreads

LOG = Logger("shop", observer=keep_event)


def current() -> int | None:
    """The number of the job that runs here."""
    run = RUNNING.get()
    return None if run is None else run.id


@pytest.fixture
def threads() -> Iterator[HandlerThreads]:
    """Threads of the test's own."""
    pool = ThreadPool(0, 2)
    pool.start()
    yield HandlerThreads(running_reactor(), pool, most=2)
    pool.stop()


def test_coroutines_that_take_turns_each_have_their_own_job() -> None:
    """Before and after they wait; none runs outside of them."""
    seen: list[tuple[int, int | None]] = []
    bench = Harness()

    async def perform(_: Any, job: RunningJob) -> None:
        seen.append((job.id, current()))
        await bench.wait(job)
        seen.append((job.id, current()))

    with bench.handler(perform, 5, *[Handled.entry(each) for each in (1, 2, 3)]):
        assert current() is None
        bench.end(2)
        bench.end(1)
        bench.end(3)
    assert [job for job, _ in seen] == [1, 2, 3, 2, 1, 3]
    assert all(job == its for job, its in seen)
    assert current() is None


async def test_asyncio_handlers_have_their_job(threads: HandlerThreads) -> None:
    """Also after they wait, and in threads that asyncio starts for them."""

    async def perform(self: object, job: object) -> list[int | None]:
        before = current()
        await asyncio.sleep(0.001)
        return [before, current(), await asyncio.to_thread(current)]

    with running(SecondRun()):
        begun = begun_with(perform, None, Runtime.ASYNCIO, threads)
    assert await begun == [7, 7, 7]


async def test_threads_have_their_job(threads: HandlerThreads) -> None:
    """Two at a time."""

    def perform(self: object, job: object) -> int | None:
        return current()

    begun = []
    for job_id in (1, 2):
        with running(SecondRun(job_id)):
            begun.append(begun_with(perform, None, Runtime.THREAD, threads))
    assert [await each for each in begun] == [1, 2]


def failing_with(error: BaseException) -> Any:
    """A handler that logs and fails."""

    async def perform(_: Any, job: RunningJob) -> None:
        LOG.info("job {id} begins", id=job.id)
        await succeed(None)
        LOG.warn("job {id} fails", id=job.id)
        raise error

    return perform


def outcome(error: BaseException, terms: object = None, **policy: Any) -> dict[str, Any]:
    """What is settled of a job whose handler logs and then raises an error."""
    bench = Harness()
    with bench.handler(failing_with(error), **policy):
        bench.hand(5, Handled.entry(1, terms=terms))
        bench.turn()
    [said] = bench.settled
    return said


def test_a_failed_attempt_carries_its_log_and_the_class_of_its_error() -> None:
    """Whether it runs again or not."""
    for policy in ({}, {"retry": Retry(attempts=1)}):
        said = outcome(asyncio.IncompleteReadError(b"", 1), **policy)
        assert said["error_class"] == "asyncio.exceptions.IncompleteReadError"
        lines = [each.split(" ", 1)[1] for each in said["log"].splitlines()]
        assert lines == ["info shop: job 1 begins", "warning shop: job 1 fails"]


def test_a_failure_by_decision_has_no_class() -> None:
    """Its log is kept all the same."""
    said = outcome(Fail("enough"))
    assert "error_class" not in said
    assert "fails" in said["log"]


def test_an_attempt_that_did_not_fail_keeps_no_log() -> None:
    """As one that snoozes."""
    assert {"log", "error_class"} & outcome(Snooze(5)).keys() == set()


def test_redacted_work_keeps_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its class or its options: entries may quote the payload."""
    assert "log" not in outcome(ValueError("x"), terms={"redacted": True})
    monkeypatch.setattr(Handled, "redacted", True)
    said = outcome(ValueError("x"))
    assert "log" not in said
    assert said["error_class"] == "builtins.ValueError"


def test_a_timeout_has_the_class_of_the_error_that_ends_it() -> None:
    """And what was logged before."""
    bench = Harness()

    async def perform(_: Any, job: RunningJob) -> None:
        LOG.info("waits")
        await bench.wait(job)

    with bench.handler(perform, 5, Handled.entry(1), timeout=5.0):
        bench.clock.advance(5.0)
        bench.turn()
    [said] = bench.settled
    assert said["error_class"] == "builtins.TimeoutError"
    assert said["log"].endswith("info shop: waits")


def test_the_text_for_the_master_s_log_names_the_run() -> None:
    """For lines of JSON, which the master writes."""
    bench = Harness()
    with bench.handler(failing_with(ValueError("no"))):
        bench.hand(5, Handled.entry(1, attempt=3))
        bench.turn()
    assert bench.logged_runs == [{"job": 1, "work_type": Handled.work_type, "attempt": 3}]
