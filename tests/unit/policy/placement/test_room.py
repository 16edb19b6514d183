"""Who gets what: the decisions on plain values."""

from hypothesis import assume, given
from hypothesis import strategies as st

from txqueue.policy.placement.room import (
    CLAIM_PAUSE,
    FEW,
    MANY,
    MEMORY,
    MOST_AHEAD,
    RESERVE,
    STOCKED_PAUSE,
    STREAM,
    Load,
    Room,
    ahead_of,
    claim_delay,
    give_back_shares,
    is_stream,
    least_loaded,
    ordinary_jobs,
    room_of,
    updated_rate,
)

loads = st.lists(
    st.builds(
        Load,
        key=st.integers(0, 5),
        capacity=st.integers(1, 1000),
        outstanding=st.integers(0, 30_000),
        rate=st.floats(0, 1e6),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda load: load.key,
)


@given(loads)
def test_a_worker_holds_its_capacity_and_what_its_pace_carries_off(workers: list[Load]) -> None:
    """The limit is never below capacity, nor more than so much ahead of it."""
    for load in workers:
        assert load.capacity <= load.limit <= load.capacity + MOST_AHEAD
        assert load.free == max(0, load.limit - load.outstanding)


@given(loads)
def test_a_claim_of_ordinary_jobs_takes_what_a_worker_has_room_for(workers: list[Load]) -> None:
    """As one gets them all."""
    room = room_of(workers)
    largest = max(load.free for load in workers)
    assert ordinary_jobs(room, in_stream=False) == min(FEW, largest)
    assert ordinary_jobs(room, in_stream=True) == min(MANY, largest)


def test_many_jobs_in_a_claim_are_a_stream() -> None:
    """Fewer than a claim of them takes at most, so that it lasts."""
    assert [is_stream(jobs) for jobs in (0, FEW, STREAM - 1, STREAM, MANY - 1)] == [False] * 3 + [
        True
    ] * 2


@given(loads)
def test_the_least_loaded_can_start_most(workers: list[Load]) -> None:
    """No other worker can start more at once, or as much and has more free weight."""
    chosen = least_loaded(workers)
    assert chosen in workers
    assert (chosen.idle, chosen.free, -chosen.outstanding) == max(
        (load.idle, load.free, -load.outstanding) for load in workers
    )


def test_a_pace_of_before_does_not_draw_long_jobs_to_a_full_worker() -> None:
    """Whatever its recent pace: the other one can start them now."""
    quick, idle = Load(1, 20, 20, rate=50_000), Load(2, 20, 0, rate=100)
    assert quick.free > idle.free
    assert least_loaded([quick, idle]) is idle


@given(loads)
def test_a_choice_does_not_depend_on_the_order(workers: list[Load]) -> None:
    """The same workers, listed otherwise, give the same choice."""
    assert least_loaded(workers) == least_loaded(workers[::-1])


@given(loads, st.lists(st.integers(1, 50), max_size=30))
def test_handing_out_one_by_one_never_exceeds_what_there_is(
    workers: list[Load], weights: list[int]
) -> None:
    """Chunks sent to the least loaded worker while it has room exceed no limit."""
    held = {load.key: load for load in workers if load.free}
    assume(held)
    for weight in weights:
        chosen = least_loaded(list(held.values()))
        if weight > chosen.free:
            continue
        outstanding = chosen.outstanding + weight
        held[chosen.key] = Load(chosen.key, chosen.capacity, outstanding, chosen.rate)
    assert all(load.outstanding <= load.limit for load in held.values())


@given(loads)
def test_room_sums_up_the_workers(workers: list[Load]) -> None:
    """What a claim may take is what the workers can be handed."""
    expected = Room(
        free=sum(load.free for load in workers),
        limit=sum(load.limit for load in workers),
        largest=max(load.free for load in workers),
        capacity=max(load.capacity for load in workers),
        workers=len([load for load in workers if load.free]),
        ahead=sum(load.limit - load.capacity for load in workers),
        is_stocked=all(map(_is_stocked, workers)),
    )
    assert expected == room_of(workers)


def _is_stocked(load: Load) -> bool:
    return load.outstanding >= load.capacity + RESERVE * (load.limit - load.capacity)


def test_a_claim_follows_before_what_a_worker_got_in_advance_is_used_up() -> None:
    """A worker that has become quicker, or one of several, does not run out of jobs meanwhile."""
    full = Load(1, capacity=100, outstanding=180, rate=1000)
    assert claim_delay(room_of([full]), 0.0) == STOCKED_PAUSE
    low = Load(2, capacity=100, outstanding=129, rate=1000)
    assert claim_delay(room_of([full, low]), 0.0) == CLAIM_PAUSE


def test_without_workers_there_is_no_room() -> None:
    """A node whose workers are all restarting claims nothing."""
    assert Room(0, 0, 0, 0, 0) == room_of([])


@given(loads, st.floats(0, 10))
def test_a_claim_waits_only_while_workers_are_busy(workers: list[Load], since: float) -> None:
    """At once with a quarter free; soon with less, later if all have work; not at all with none."""
    room = room_of(workers)
    delay = claim_delay(room, since)
    if room.free == 0:
        assert delay is None
    elif room.free * 4 >= room.limit:
        assert delay == 0
    else:
        is_stocked = all(map(_is_stocked, workers))
        assert delay == max(0.0, (STOCKED_PAUSE if is_stocked else CLAIM_PAUSE) - since)


rates = st.floats(0, 1e6)
spans = st.floats(0.001, 10)


@given(rates, st.integers(0, 10_000), spans)
def test_a_rate_lies_between_the_old_and_the_new(rate: float, weight: int, span: float) -> None:
    """Folding in never leaves the range of what was and what is."""
    new = weight / span
    slack = 1e-9 * max(rate, new)
    assert min(rate, new) - slack <= updated_rate(rate, weight, span) <= max(rate, new) + slack


@given(rates, spans)
def test_a_rate_fades_while_nothing_is_finished(rate: float, span: float) -> None:
    """A worker that is stuck loses its credit: half of it in a memory's time."""
    assert updated_rate(rate, 0, span) <= rate
    assert updated_rate(rate, 0, MEMORY) == rate / 2


@given(st.integers(1, 10_000), spans)
def test_a_steady_pace_is_found(weight: int, span: float) -> None:
    """From any start the rate comes to what is finished a second."""
    rate = 1e6
    for _ in range(200):
        rate = updated_rate(rate, weight, max(span, 0.1))
    assert abs(rate - weight / max(span, 0.1)) <= 1e-3 * rate


def test_workers_give_up_what_waits() -> None:
    """The worker with the most waiting work gives first; without a limit, each gives all of it."""
    loads = [Load(1, 10, 15), Load(2, 10, 30), Load(3, 10, 3)]
    assert give_back_shares(loads, 22) == {2: 20, 1: 2, 3: 0}
    assert give_back_shares(loads, 5) == {2: 5, 1: 0, 3: 0}
    assert give_back_shares(loads, None) == {1: None, 2: None, 3: None}


def test_waiting_weight_differs_from_excess_weight() -> None:
    """A worker's pace raises its limit, not its capacity."""
    assert ahead_of([Load(1, 10, 15, rate=50.0), Load(2, 10, 13), Load(3, 10, 2)]) == (8, 3)
