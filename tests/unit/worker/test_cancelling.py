"""How a worker cancels a job."""

from contextlib import suppress

import pytest
from twisted.internet.defer import CancelledError, Deferred

from tests.unit.worker.performing import INCARNATION, Handled, Harness
from txqueue import Discard, Retry, RunningJob, Runtime, Snooze
from txqueue.policy.endings.outcome import judge_cancelled


def outcomes(harness: Harness) -> list[tuple[int, str, str | None]]:
    """What was settled: number, outcome and error each."""
    return [(each["job_id"], each["outcome"], each.get("error")) for each in harness.settled]


@pytest.mark.parametrize("fails", [True, False])
def test_a_thread_s_job_is_marked_and_ends_by_itself(fails: bool) -> None:
    """A thread cannot be interrupted: its function can look, and settles as it ends."""
    harness = Harness()
    thread = harness.thread
    seen: list[bool] = []

    def perform(_: object, job: RunningJob) -> str:
        seen.append(job.is_cancelled)
        if fails:
            raise ValueError("stopped half way")
        return "all the same"

    Handled.runtime = Runtime.THREAD
    try:
        with harness.handler(perform, 5, Handled.entry(1)):
            harness.performer.cancel(5, 1, "ann")
            harness.turn()
            assert harness.settled == []
            thread.functions.pop()()
            harness.turn()
    finally:
        del Handled.runtime
    assert seen == [True]
    assert [each["outcome"] for each in harness.settled] == ["cancelled"] * fails
    assert harness.results == ({} if fails else {"1": "all the same"})


def test_a_job_that_has_not_started_never_does() -> None:
    """It is settled as one that never ran; its neighbours are not touched."""
    harness = Harness(capacity=1)
    with harness.handler(
        lambda _, job: harness.wait(job),
        5,
        Handled.entry(1),
        Handled.entry(2, weight=3),
        Handled.entry(3),
    ):
        harness.performer.cancel(5, 2, "ann")
        harness.turn()
        assert outcomes(harness) == [(2, "cancelled", "cancelled by ann")]
        assert harness.settled[0]["unstarted"] is True
        assert (harness.settled_weight, dict(harness.counts)) == (3, {5: 1})
        harness.end(1)
        harness.end(3)
    assert [ids for _, _, ids, *_ in harness.finished] == [[1], [3]]


def test_a_running_coroutine_is_interrupted_once() -> None:
    """However often that is asked; what it does as it ends is not interrupted again."""
    harness = Harness()
    cleaning: Deferred[None] = Deferred()
    seen: list[object] = []

    async def perform(_: object, job: RunningJob) -> None:
        try:
            await harness.wait(job)
        except CancelledError:
            seen.append(job.is_cancelled)
            await cleaning
            raise

    with harness.handler(perform, 5, Handled.entry(1)):
        harness.performer.cancel(5, 1, "ann")
        harness.performer.cancel(5, 1, "bob")
        harness.turn()
        assert (seen, harness.settled) == ([True], [])
        cleaning.callback(None)
        harness.turn()
    assert outcomes(harness) == [(1, "cancelled", "cancelled by ann")]


def test_only_the_assignment_that_was_meant_is_cancelled() -> None:
    """The same job's next run, or another job, is not affected."""
    harness = Harness()
    with harness.handler(lambda _, job: harness.wait(job), 5, Handled.entry(1)):
        harness.performer.cancel(4, 1, "ann")
        harness.performer.cancel(5, 2, "ann")
        harness.end(1)
    assert harness.settled == []
    assert harness.finished == [(5, 3, [1], 1, 1)]


@pytest.mark.parametrize("raised", [ValueError("no"), Snooze(3)])
def test_a_cancelled_job_does_not_run_again(raised: Exception) -> None:
    """Whatever it raises because of it."""
    harness = Harness()

    async def perform(_: object, job: RunningJob) -> None:
        try:
            await harness.wait(job)
        except CancelledError:
            raise raised from None

    with harness.handler(perform, 5, Handled.entry(1), retry=Retry(attempts=9)):
        harness.performer.cancel(5, 1, "ann")
        harness.turn()
    ((_, outcome, error),) = outcomes(harness)
    assert outcome == "cancelled"
    assert str(error).startswith("cancelled by ann; as it ended: ")


def test_a_coroutine_may_finish_all_the_same() -> None:
    """What it returns counts."""
    harness = Harness()

    async def perform(_: object, job: RunningJob) -> str:
        with suppress(CancelledError):
            await harness.wait(job)
        return "all the same"

    with harness.handler(perform, 5, Handled.entry(1)):
        harness.performer.cancel(5, 1, "ann")
        harness.turn()
    assert (harness.results, harness.settled) == ({"1": "all the same"}, [])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "cancelled by ann"),
        (CancelledError(), "cancelled by ann"),
        (Discard("half done"), "cancelled by ann: half done"),
        (Discard(""), "cancelled by ann"),
    ],
)
def test_why_it_was_cancelled(error: BaseException | None, said: str) -> None:
    """The operator, and the handler's own error, if any."""
    verdict = judge_cancelled(error, "ann")
    assert (verdict.outcome, verdict.error) == ("cancelled", said)


def test_a_handler_that_refuses_to_be_cancelled_harms_no_other_job() -> None:
    """Its own Deferred raises, as those of txpostgres do: it ends when it ends, the others now."""

    def refuse(_: object) -> None:
        raise RuntimeError("in progress")

    harness = Harness()
    refusing: Deferred[None] = Deferred(refuse)

    def perform(_: object, job: RunningJob) -> object:
        return refusing if job.id == 1 else harness.wait(job)

    with harness.handler(perform, 5, Handled.entry(1, terms={"grouped": 1}), Handled.entry(2)):
        harness.performer.cancel(5, 1, "ann")
        assert harness.performer.end_groups()
        assert not harness.performer.end_groups(run=INCARNATION)
        harness.performer.cancel(5, 2, "ann")
        harness.turn()
        assert [each["job_id"] for each in harness.settled] == [2]
        refusing.callback(None)
        harness.turn()
    assert harness.finished[0][2] == [1]


@pytest.mark.parametrize("runtime", list(Runtime)[::2])
def test_a_restarted_run_ends_without_an_attempt(runtime: Runtime) -> None:
    """A coroutine is interrupted; a thread is left behind at once, and keeps its weight."""
    harness = Harness(capacity=1)
    thread = harness.thread
    Handled.runtime = runtime
    try:
        with harness.handler(
            lambda _, job: harness.wait(job), 5, Handled.entry(1), Handled.entry(2)
        ):
            harness.performer.restart(5, 2)
            harness.performer.restart(5, 1)
            harness.performer.restart(5, 1)
            harness.turn()
            assert outcomes(harness) == [(2, "snooze", None), (1, "snooze", None)]
            assert harness.settled[0]["unstarted"] is True
            assert len(thread.functions) == (runtime is Runtime.THREAD)
    finally:
        del Handled.runtime
