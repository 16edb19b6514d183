"""What ran in a process that died is known to its master."""

import os
import signal

from hypothesis import given
from hypothesis import strategies as st

from txqueue.inflight import InFlight

CAPACITY = 3


@given(st.lists(st.tuples(st.sampled_from(["begin", "pause", "keep", "drop"]), st.integers(1, 5))))
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
            kept += [job_id] if job_id not in kept and len(kept) <= CAPACITY else []
        else:
            flight.drop(job_id)
            kept = [each for each in kept if each != job_id]
        assert flight.ids == {begun, *kept} - {0}


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
