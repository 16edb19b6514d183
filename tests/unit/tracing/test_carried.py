"""The trace in a job's options."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.model.enqueue_options import is_traceparent
from txqueue.tracing.choice import LATE, CarriedTrace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
TRACES = st.builds(
    CarriedTrace,
    st.from_regex(r"0[0-9a-f]-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True).filter(
        is_traceparent
    ),
    st.text(max_size=20),
    st.none() | st.floats(0, 4e9),
)


@given(TRACES)
def test_what_options_carry_is_read_back(carried: CarriedTrace) -> None:
    """Between other options too."""
    assert CarriedTrace.of_terms({"timeout": 3, **carried.options}) == carried


@given(JSON | st.fixed_dictionaries({"traceparent": JSON, "tracestate": JSON, "traced_at": JSON}))
def test_anything_else_is_no_trace_and_no_error(terms: Any) -> None:
    """SQL clients can put any JSON into the options."""
    carried = CarriedTrace.of_terms(terms)
    assert carried is None or is_traceparent(carried.parent)


@pytest.mark.parametrize(
    ("attempt", "later", "is_continued"),
    [(1, 0, True), (1, LATE, True), (1, LATE + 1, False), (2, 0, False), (1, -5, True)],
)
def test_the_first_run_continues_the_trace_if_it_is_soon(
    attempt: int, later: float, is_continued: bool
) -> None:
    """Retries, and runs long afterwards, link to it; clocks of hosts may differ a little."""
    carried = CarriedTrace(PARENT, sent_at=1000.0)
    assert carried.is_continued(attempt, 1000.0 + later) is is_continued
    # One that a client gave by SQL may have no moment.
    assert CarriedTrace(PARENT).is_continued(attempt, 5e9) is (attempt == 1)


@pytest.mark.parametrize("moment", [10**400, float("inf"), True, "1", None])
def test_an_odd_moment_is_no_error(moment: object) -> None:
    """PostgreSQL's JSON has numbers that no float can hold."""
    carried = CarriedTrace.of_terms({"traceparent": PARENT, "traced_at": moment})
    assert carried is not None
    assert isinstance(carried.is_continued(1, 0), bool)
