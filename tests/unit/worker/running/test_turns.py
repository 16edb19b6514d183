"""When a worker acts: soon after a request, once, and right after it has read messages."""

from contextvars import ContextVar

import pytest
from twisted.internet.task import Clock

from txqueue.worker.running.backlog import Turns

JOB: ContextVar[str] = ContextVar("job")


class Harness:
    """Turns that count."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.acts = 0
        self.reports = 0
        self.requests_more = False
        self.starts_more = False
        self.seen: list[str] = []
        self.turns = Turns(self.clock, self.act, self.report)

    def act(self) -> None:
        """Count, and perhaps request another call."""
        self.acts += 1
        self.seen.append(JOB.get("none"))
        if self.starts_more:
            self.starts_more = False
            self.turns.start_now()
        if self.requests_more:
            self.requests_more = False
            self.turns.request()

    def report(self) -> None:
        """Count, after the other."""
        self.reports += 1
        assert self.reports == self.acts


def test_many_requests_make_one_call() -> None:
    """In the reactor's next turn."""
    harness = Harness()
    harness.turns.request()
    harness.turns.request()
    assert (harness.acts, harness.turns.is_due) == (0, True)
    harness.clock.advance(0)
    assert (harness.acts, harness.turns.is_due) == (1, False)
    harness.clock.advance(0)
    assert (harness.acts, harness.reports) == (1, 1)


def test_what_messages_request_is_done_after_the_last_of_them() -> None:
    """And not again in the next turn."""
    harness = Harness()
    with harness.turns.reading():
        harness.turns.request()
        harness.turns.request()
        assert harness.acts == 0
    assert harness.acts == 1
    assert harness.clock.getDelayedCalls() == []


def test_messages_that_request_nothing_cause_nothing() -> None:
    """A lease, for instance."""
    harness = Harness()
    with harness.turns.reading():
        pass
    assert harness.acts == 0


def test_a_call_requests_another_one() -> None:
    """The reactor has its turn before that, so that a long chunk does not hold it up."""
    harness = Harness()
    harness.requests_more = True
    with harness.turns.reading():
        harness.turns.request()
    assert (harness.acts, harness.turns.is_due) == (1, True)
    harness.clock.advance(0)
    assert harness.acts == 2


def test_a_call_that_is_due_waits_for_the_reactor() -> None:
    """Messages that come before it do not hasten it."""
    harness = Harness()
    harness.turns.request()
    with harness.turns.reading():
        harness.turns.request()
    assert harness.acts == 0
    harness.clock.advance(0)
    assert harness.acts == 1


def broken(harness: Harness) -> None:
    """Process a message that requests a call, and then one that fails."""
    with harness.turns.reading():
        harness.turns.request()
        raise ValueError("broken")


def test_a_broken_message_keeps_no_request_back() -> None:
    """What the messages before it requested is done."""
    harness = Harness()
    with pytest.raises(ValueError, match="broken"):
        broken(harness)
    assert (harness.acts, harness.turns.is_due) == (1, False)


def test_a_call_can_wait() -> None:
    """It is due meanwhile, so that other requests do not hasten it."""
    harness = Harness()
    harness.turns.request(after=2.0)
    harness.turns.request()
    harness.clock.advance(1.9)
    assert (harness.acts, harness.turns.is_due) == (0, True)
    harness.clock.advance(0.1)
    assert (harness.acts, harness.turns.is_due) == (1, False)


def test_jobs_start_without_a_turn() -> None:
    """Nothing is reported, and nothing of the context of the job that has ended is left."""
    harness = Harness()
    token = JOB.set("the job that has ended")
    try:
        harness.turns.start_now()
    finally:
        JOB.reset(token)
    assert (harness.acts, harness.reports, harness.seen) == (1, 0, ["none"])
    assert harness.clock.getDelayedCalls() == []


def test_a_job_that_ends_as_others_start_is_followed_in_a_turn() -> None:
    """Jobs that end at once would nest without end."""
    harness = Harness()
    harness.starts_more = True
    harness.turns.start_now()
    assert (harness.acts, harness.turns.is_due) == (1, True)


def test_a_turn_that_is_due_starts_the_jobs() -> None:
    """They are started once."""
    harness = Harness()
    harness.turns.request()
    harness.turns.start_now()
    assert harness.acts == 0
    harness.clock.advance(0)
    assert harness.acts == 1
