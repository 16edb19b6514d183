"""Several numbers as one value of a box."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.wire.commands import NumberList

HEAD = NumberList(assignment=int, lane=int, asked_at=float)


@given(st.integers(0, 2**63 - 1), st.integers(-(2**31), 2**31), st.floats(allow_nan=False))
def test_numbers_arrive_as_they_were_sent(assignment: int, lane: int, asked_at: float) -> None:
    """Exactly, in one value, and nothing else of the command."""
    numbers = {"assignment": assignment, "lane": lane, "asked_at": asked_at}
    box: dict[bytes, bytes] = {}
    HEAD.toBox(b"head", box, {**numbers, "other": "x"}, None)
    assert list(box) == [b"head"]
    arrived: dict[str, float] = {}
    HEAD.fromBox(b"head", box, arrived, None)
    assert arrived == numbers


@pytest.mark.parametrize("value", [b"", b"1 2", b"1 2 3.0 4", b"1 x 3.0", b"1 2.5 3.0"])
def test_other_numbers_are_refused(value: bytes) -> None:
    """The pipe then closes, as after any broken command."""
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are Python's
        HEAD.fromBox(b"head", {b"head": value}, {}, None)
