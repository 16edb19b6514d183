"""Results and reasons of handlers, of any length."""

import pytest

from tests.unit.worker.performing import Handled, Harness
from txqueue import Discard, Fail, RunningJob, Snooze
from txqueue.policy.endings.outcome import LONGEST_TEXT
from txqueue.worker.running.endings import LONGEST_TOGETHER


@pytest.mark.parametrize("later", [False, True])
def test_a_result_that_is_too_long_fails_the_job(later: bool) -> None:
    """One of exactly the limit is kept; its bytes count, not its characters."""
    harness = Harness(longest_result=100)
    values = {1: "x" * 98, 2: "x" * 99, 3: "\N{EURO SIGN}" * 33}

    def perform(_: object, job: RunningJob) -> object:
        return harness.wait(job) if later else values[job.id]

    with harness.handler(perform, 5, *map(Handled.entry, values)):
        for number, waiting in list(harness.running.items()):
            waiting.callback(values[number])
        harness.turn()
    assert harness.results == {"1": values[1]}
    assert [(each["job_id"], each["outcome"]) for each in harness.settled] == [
        (2, "failed"),
        (3, "failed"),
    ]
    assert "the result has 101 bytes of JSON, more than the 100" in harness.settled[0]["error"]
    assert "--result-limit" in harness.settled[0]["error"]


def test_a_long_result_is_reported_apart() -> None:
    """So that the master can write it after the short ones, and no other waits for it."""
    harness = Harness()
    harness.perform(
        lambda _, job: "x" * LONGEST_TOGETHER if job.id == 1 else "short",
        5,
        Handled.entry(1),
        Handled.entry(2),
    )
    assert harness.results == {"2": "short"}
    [settled] = harness.settled
    assert (settled["outcome"], len(settled["result"])) == ("done", LONGEST_TOGETHER)


@pytest.mark.parametrize("said", [Fail("x" * 10**6), Discard("x" * 10**6), Snooze(1)])
def test_a_reason_of_any_length_is_cut(said: Exception) -> None:
    """The master has to write it with the outcomes of other jobs."""
    harness = Harness()
    harness.perform(lambda *_: said, 5, Handled.entry(1))
    assert len(harness.settled[0].get("error") or "") <= LONGEST_TEXT
