"""When overdue cool-downs start: one after the other, urgent ones first, and none for long."""

from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.schedules import LATE, SPREAD, DueStart, start_delays

starts_of_all = st.lists(
    st.builds(
        DueStart,
        name=st.text(max_size=9),
        seconds=st.floats(1, 1e6),
        priority=st.integers(0, 9),
        late=st.floats(0, 1e6),
    ),
    unique_by=lambda start: start.name,
    max_size=50,
)


def overdue(many: int, seconds: float = 60, late: float = 80) -> list[DueStart]:
    """Cool-downs that are all overdue by the same time."""
    return [DueStart(f"sync {number}", seconds, 4, late) for number in range(many)]


def test_many_are_spread_evenly_over_their_own_length() -> None:
    """Twenty a second, not all at once."""
    moments = sorted([0.0, *start_delays(overdue(1200)).values()])
    assert moments == [60 * place / 1200 for place in range(1200)]


def test_a_few_start_at_least_one_a_second() -> None:
    """Two that come once an hour are no herd."""
    assert sorted(start_delays(overdue(3, seconds=3600)).values()) == [1.0, 2.0]


def test_one_that_is_alone_starts_at_once() -> None:
    """There is nothing to spread."""
    assert start_delays(overdue(1)) == {}


def test_what_is_only_late_starts_at_once() -> None:
    """As always when a check comes a moment after the time."""
    assert start_delays(overdue(100, late=LATE)) == {}


def test_a_short_hiccup_delays_none_for_long() -> None:
    """At most by about as much as it has lasted."""
    assert max(start_delays(overdue(1200, late=2.0)).values()) < 2.0 * SPREAD


@given(starts_of_all)
def test_urgent_ones_start_first_and_none_later_than_its_own_length(starts: list[DueStart]) -> None:
    """Whatever their lengths, and the same in whatever order they are found."""
    delays = start_delays(starts)
    assert start_delays(starts[::-1]) == delays
    assert all(delays.get(start.name, 0.0) <= start.seconds for start in starts)
    late = [start for start in starts if start.late > LATE]
    for one in late:
        for other in late:
            if one.priority > other.priority and one.seconds <= other.seconds:
                assert delays.get(one.name, 0.0) <= delays.get(other.name, 0.0)
