"""Threads that outlive their jobs, and jobs that wait for a thread."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.performing import Handled, Harness
from txqueue import Retry, Runtime
from txqueue.worker.running.waiting_run import BEAT, LONGEST_END

TIMEOUT = 10.0


@pytest.fixture(autouse=True)
def in_threads() -> Iterator[None]:
    """Handlers of this module run in threads."""
    Handled.runtime = Runtime.THREAD
    yield
    del Handled.runtime


def outcomes(harness: Harness) -> list[tuple[int, str]]:
    """The jobs that were settled, and how."""
    return [(each["job_id"], each["outcome"]) for each in harness.settled]


def test_a_timed_out_job_keeps_its_weight_until_its_thread_ends() -> None:
    """The next job starts only then; the master learns what is taken."""
    harness = Harness(capacity=5, most=5)
    thread = harness.thread
    begun: list[int] = []
    with harness.handler(
        lambda _, job: begun.append(job.id),
        5,
        Handled.entry(1, weight=2),
        Handled.entry(2, weight=3),
        Handled.entry(3),
        timeout=TIMEOUT,
    ):
        harness.clock.advance(TIMEOUT)
        harness.turn()
        assert outcomes(harness) == [(1, "retry"), (2, "retry")]
        assert harness.occupied == (5, [1, 2], True)
        assert len(thread.functions) == 2
        thread.end()
        harness.turn()
        assert harness.occupied == (3, [2], False)
        assert len(thread.functions) == 2
        thread.end()
        thread.end()
        harness.turn()
    assert harness.occupied == (0, [], False)
    assert begun == [1, 2, 3]
    assert [ids for _, _, ids, *_ in harness.finished] == [[3]]


def test_a_retry_beside_the_thread_of_the_first_attempt() -> None:
    """Both are counted: each has a thread of its own."""
    harness = Harness(capacity=5, most=5)
    thread = harness.thread
    with harness.handler(lambda *_: None, timeout=TIMEOUT):
        for attempt in (1, 2):
            harness.hand(5, Handled.entry(1, attempt=attempt))
            harness.turn()
            harness.clock.advance(TIMEOUT)
            harness.turn()
        assert harness.occupied == (2, [1, 1], False)
        thread.end()
        thread.end()
    assert harness.occupied == (0, [], False)


def test_the_timeout_of_a_job_counts_from_its_start() -> None:
    """Not while all threads are in use: a job that waits is unstarted, and can be taken back."""
    harness = Harness(most=1)
    thread = harness.thread
    with harness.handler(
        lambda *_: None, 5, *[Handled.entry(each) for each in (1, 2, 3)], timeout=TIMEOUT
    ):
        assert harness.in_flight.ids == {1}
        assert harness.performer.held({5}) == {5: [2, 3, 1]}
        harness.turn()
        harness.clock.advance(TIMEOUT - 1)
        thread.end()
        harness.turn()
        harness.clock.advance(TIMEOUT - 1)
        assert harness.settled == []
        assert harness.in_flight.ids == {2}
        assert harness.performer.give_up_waiting() == ({5: [3]}, 1)
        thread.end()
        harness.turn()
    assert [ids for _, _, ids, *_ in harness.finished] == [[1], [2]]
    assert thread.functions == []


def test_a_job_that_needs_no_thread_does_not_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It overtakes those that do."""
    harness = Harness(most=1)
    thread = harness.thread
    with harness.handler(lambda _, job: harness.wait(job), 5, Handled.entry(1), Handled.entry(2)):
        harness.performer._kinds.clear()
        monkeypatch.setattr(Handled, "runtime", Runtime.TWISTED)
        harness.hand(6, Handled.entry(3))
        harness.turn()
        assert set(harness.running) == {3}
    assert len(thread.functions) == 1


@pytest.mark.parametrize("ends", ["timeout", "heartbeat", "cancel"])
def test_a_thread_that_goes_on_is_left_behind(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its timeout, its silence, or long after its cancellation; it can see that."""
    monkeypatch.setattr(Handled, "heartbeat", TIMEOUT if ends == "heartbeat" else None)
    harness = Harness(capacity=1)
    harness.performer.start()
    seen: list[bool] = []
    timeout = TIMEOUT if ends == "timeout" else None
    with harness.handler(
        lambda _, job: seen.append(job.is_cancelled), 5, Handled.entry(1), timeout=timeout
    ):
        if ends == "cancel":
            harness.performer.cancel(5, 1, "ann")
        harness.clock.pump([BEAT] * int(max(TIMEOUT, LONGEST_END) + 2))
        assert outcomes(harness) == [(1, "cancelled" if ends == "cancel" else "retry")]
        assert harness.occupied == (1, [1], True)
        harness.thread.end()
    assert seen == [True]
    assert harness.finished == []
    assert harness.occupied == (0, [], False)
    errors = {"timeout": "TimeoutError: ", "heartbeat": "txqueue.errors.Hung: hung: silent"}
    assert harness.settled[0]["error"].startswith(errors.get(ends, "cancelled by ann"))


def test_a_cancelled_thread_has_time_to_end() -> None:
    """Until the worker waits no longer, which its log explains."""
    harness = Harness(most=2)
    harness.performer.start()
    with harness.handler(lambda *_: "all the same", 5, Handled.entry(1), Handled.entry(2)):
        harness.performer.cancel(5, 1, "ann")
        harness.performer.cancel(5, 2, "ann")
        harness.clock.pump([BEAT] * int(LONGEST_END - 1))
        harness.thread.end()
        harness.turn()
        assert harness.results == {"1": "all the same"}
        assert harness.logged == []
        harness.clock.pump([BEAT] * 2)
    ((_, text),) = harness.logged
    assert "must check job.is_cancelled" in text
    assert outcomes(harness) == [(2, "cancelled")]


def test_a_thread_that_beats_is_not_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes."""
    monkeypatch.setattr(Handled, "heartbeat", TIMEOUT)
    harness = Harness()
    harness.performer.start()
    with harness.handler(lambda *_: None, 5, Handled.entry(1)):
        (job,) = harness.performer._running
        for _ in range(5):
            job.beat()
            harness.clock.pump([BEAT] * int(TIMEOUT - 1))
        harness.thread.end()
        harness.turn()
    assert harness.settled == []
    assert harness.finished[0][2] == [1]


@given(st.lists(st.sampled_from(["time out", "end", "arrive"]), max_size=30))
def test_weight_is_never_lost(acts: list[str]) -> None:
    """Whatever ends first, a job or its thread: at last everything can start again."""
    harness = Harness(capacity=3, most=2)
    thread = harness.thread
    arrived = 0
    with harness.handler(lambda *_: None, timeout=TIMEOUT, retry=Retry(attempts=1)):
        for act in acts:
            if act == "arrive":
                arrived += 1
                harness.hand(arrived, Handled.entry(arrived))
            elif act == "time out":
                harness.clock.advance(TIMEOUT)
            elif thread.functions:
                thread.end()
            harness.turn()
            assert len(thread.functions) <= 2
        while thread.functions:
            thread.end()
            harness.turn()
    done = [job_id for _, _, ids, *_ in harness.finished for job_id in ids]
    assert sorted(done + [job_id for job_id, _ in outcomes(harness)]) == [*range(1, arrived + 1)]
    assert harness.occupied == (0, [], False)
    assert harness.performer._running_weight == 0
