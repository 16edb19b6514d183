"""When a client looks at awaited jobs: at announced ones at once, at all now and then."""

from typing import Any

from attrs import evolve, fields

from txqueue import Job, State
from txqueue.policy.awaited_ends import (
    ANNOUNCED_FOR,
    LONGEST,
    RARELY,
    REQUESTED_EVERY,
    AwaitedEnds,
    EndLooks,
)


def ended(job_id: int) -> Job:
    """A job that has ended."""
    values: dict[str, Any] = {each.name: None for each in fields(Job)}
    return Job(**values | {"id": job_id, "state": State.DONE})


def listening(*job_ids: int) -> EndLooks[str]:
    """Looks of callers that wait, as announcements have begun to arrive at moment 0."""
    looks: EndLooks[str] = EndLooks()
    for job_id in job_ids:
        looks.add(job_id, f"caller of {job_id}", 0.0)
    looks.must_request(0.0)
    looks.listens(0.0, is_listening=True)
    looks.due(0.0)
    return looks


def test_an_announced_job_alone_is_looked_at() -> None:
    """At once; others that have ended are nothing to this client."""
    looks = listening(1, 2, 3)
    assert looks.pause(0.5) == RARELY - 0.5
    looks.awaited.note(frozenset({2, 77}))
    assert looks.pause(0.5) == 0.0
    assert looks.due(0.5) == [2]
    assert list(looks.awaited.told([2], [ended(2)])) == [("caller of 2", ended(2))]
    assert looks.pause(0.5) == RARELY - 0.5


def test_all_are_looked_at_now_and_then() -> None:
    """However many announcements arrive meanwhile."""
    looks = listening(1, 2)
    for moment in (0.5, 1.0, 1.5, RARELY - 0.01):
        looks.awaited.note(frozenset({1}))
        assert looks.due(moment) == [1]
    assert looks.due(RARELY) == [1, 2]


def test_another_caller_causes_no_look() -> None:
    """It reads its job itself, and what ends after that is announced."""
    looks = listening(1)
    looks.add(2, "caller of 2", 0.5)
    assert looks.due(0.5) == []
    assert looks.due(RARELY) == [1, 2]


def test_one_that_comes_when_announcements_have_ceased_does() -> None:
    """The first after a while, as the request has expired meanwhile."""
    looks = listening(1)
    list(looks.awaited.told([1], [ended(1)]))
    looks.add(2, "caller of 2", ANNOUNCED_FOR + 1.0)
    assert looks.must_request(ANNOUNCED_FOR + 1.0)
    assert looks.due(ANNOUNCED_FOR + 1.0) == [2]


def test_the_first_caller_within_a_request_waits_for_announcements() -> None:
    """So that waits one after the other cost no look each."""
    looks = listening(1)
    list(looks.awaited.told([1], [ended(1)]))
    looks.add(2, "caller of 2", 3.0)
    assert looks.due(3.0) == []
    assert looks.due(3.0 + RARELY) == [2]


def test_requests_are_renewed_in_time() -> None:
    """Long before nodes would cease to announce."""
    looks = listening(1)
    assert not looks.must_request(REQUESTED_EVERY - 0.01)
    assert looks.must_request(REQUESTED_EVERY)
    assert 2 * REQUESTED_EVERY < ANNOUNCED_FOR


def test_without_announcements_looks_come_often() -> None:
    """At growing pauses, up to a bound; a new caller shortens them."""
    looks: EndLooks[str] = EndLooks()
    looks.add(1, "caller of 1", 0.0)
    moment, pauses = 0.0, []
    while moment < 5.0:
        assert looks.due(moment) == [1]
        pauses.append(looks.pause(moment))
        moment += pauses[-1]
    assert pauses == sorted(pauses)
    assert round(pauses[-1], 6) == LONGEST
    looks.add(2, "caller of 2", moment)
    assert looks.pause(moment) < 0.1


def test_after_a_failure_all_are_looked_at_again() -> None:
    """At growing pauses, with another request, as the database may be another one."""
    looks = listening(1, 2)
    pauses = [looks.pause_after_failure(0.0) for _ in range(8)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
    assert looks.must_request(0.6)
    assert looks.due(0.6) == [1, 2]
    looks.pause(0.6)
    assert looks.pause_after_failure(0.0) == pauses[0]


def test_a_client_that_no_longer_listens_looks_at_once() -> None:
    """What has ended meanwhile was not announced."""
    looks = listening(1)
    looks.listens(0.1, is_listening=False)
    assert looks.due(0.1) == [1]


def test_callers_that_have_left_are_forgotten() -> None:
    """Two may wait for one job."""
    awaited: AwaitedEnds[str] = AwaitedEnds()
    awaited.add(1, "a")
    awaited.add(1, "b")
    awaited.discard(1, "a")
    assert awaited.note(frozenset({1}))
    assert list(awaited.told([1], [ended(1)])) == [("b", ended(1))]
    assert not awaited
    awaited.discard(1, "b")
    awaited.add(2, "c")
    assert awaited.released() == [("c", 2)]
    assert not awaited


def test_a_job_that_is_gone_is_told_and_one_that_goes_on_is_not() -> None:
    """An operator may delete a job that others wait for."""
    awaited: AwaitedEnds[str] = AwaitedEnds()
    for job_id in (1, 2, 3):
        awaited.add(job_id, f"caller of {job_id}")
    goes_on = evolve(ended(1), state=State.READY)
    assert list(awaited.told([1, 2], [goes_on])) == [("caller of 2", None)]
    assert [job_id for _, job_id in awaited.released()] == [1, 3]
