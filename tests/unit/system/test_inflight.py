"""The master can read which jobs ran in a process that died."""

import os
import signal

from hypothesis import given
from hypothesis import strategies as st

from txqueue.system.inflight import InFlight

CAPACITY = 3
# What runs while more is being noted.
ROOM = 2


@given(st.lists(st.tuples(st.sampled_from(["begin", "pause", "keep", "drop"]), st.integers(1, 7))))
def test_what_is_in_flight(steps: list[tuple[str, int]]) -> None:
    """What was begun last, and what runs on; never more than there is room for."""
    flight = InFlight(CAPACITY)
    begun = 0
    kept: list[int] = []
    for what, job_id in steps:
        if what == "begin":
            flight.begin(job_id)
            begun = job_id
        elif what == "pause":
            flight.pause()
            begun = 0
        elif what == "keep":
            flight.keep(job_id)
            kept += [job_id] if job_id not in kept and len(kept) < CAPACITY + ROOM else []
        else:
            flight.drop(job_id)
            begun = 0 if begun == job_id and job_id in kept else begun
            kept = [each for each in kept if each != job_id]
        assert flight.ids == {begun, *kept} - {0}
        assert flight.beginning == begun


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "keep", "drop", "reported", "forget"]), st.integers(1, 5)
        )
    )
)
def test_what_has_begun_is_known_until_its_end_is_reported(steps: list[tuple[str, int]]) -> None:
    """In whatever order jobs begin, wait and end, and however often that is reported."""
    flight = InFlight(5)
    log: list[int] = []
    kept: set[int] = set()
    mark: int | None = None
    for what, job_id in steps:
        if what == "begin":
            flight.begin(job_id)
            log.append(job_id)
        elif what == "keep":
            flight.keep(job_id)
            kept.add(job_id)
        elif what == "drop":
            flight.drop(job_id)
            log += kept & {job_id}
            kept.discard(job_id)
        elif what == "reported":
            flight.pause()
            flight.reported()
            mark = len(log)
        else:
            flight.forget_reported()
            log, mark = log[mark or 0 :], None
        assert flight.begun == {*log, *kept}


def test_started_jobs_are_unknown_if_they_are_too_many() -> None:
    """Until ends are reported: an ended job must not look like an unstarted one."""
    flight = InFlight(10_000)
    for job_id in range(1, 5_001):
        flight.begin(job_id)
        flight.pause()
        flight.keep(job_id)
        flight.reported()
        flight.forget_reported()
    for job_id in range(1, 5_001):
        flight.drop(job_id)
    assert flight.begun is None
    flight.forget_reported()
    assert flight.begun is None
    flight.reported()
    flight.forget_reported()
    assert flight.begun == set()


def test_no_more_begin_than_there_is_room_to_note() -> None:
    """And two bursts at least after that."""
    flight = InFlight(CAPACITY)
    while not flight.is_full:
        flight.begin(7)
    for _ in range(128):
        flight.begin(8)
    assert flight.begun == {7, 8}
    flight.keep(9)
    assert flight.ids == {8, 9}


def test_a_worker_is_stopped_from_outside() -> None:
    """And continues when its master lets it."""
    descriptor = InFlight.made(CAPACITY)
    ours, theirs = InFlight(CAPACITY, descriptor), InFlight(CAPACITY, descriptor)
    os.close(descriptor)
    ours.stop()
    assert theirs.is_stopped
    ours.stop(is_stopped=False)
    assert not theirs.is_stopped


def test_it_outlives_the_process_that_wrote_it() -> None:
    """Even one that was killed."""
    descriptor = InFlight.made(CAPACITY)
    ours = InFlight(CAPACITY, descriptor)
    pid = os.fork()
    if pid == 0:
        theirs = InFlight(CAPACITY, descriptor)
        theirs.keep(7)
        theirs.begin(8)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(descriptor)
    assert ours.ids == {7, 8}


def test_which_jobs_may_have_ended_a_process() -> None:
    """The job in its first step; if there is none, also those that have ended without a report."""
    flight = InFlight(CAPACITY)
    for job_id in (1, 2, 3):
        flight.begin(job_id)
    flight.keep(2)
    assert flight.suspects == {2, 3}
    flight.pause()
    assert flight.suspects == {1, 2, 3}
    flight.reported()
    flight.forget_reported()
    assert flight.suspects == {2}
