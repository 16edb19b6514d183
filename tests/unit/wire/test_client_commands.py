"""What a client that has joined a node sends."""

import json

import pytest

from txqueue.model.assignment import Assignment
from txqueue.wire.commands import delivered, delivery

JOBS = [Assignment(1, 2, 3, 1, 5, "{}"), Assignment(6, 7 << 40, 0, 1, 1, "")]
HEAD = {"incarnation": 1, "assignment": 2, "lane": 3, "weight": 5}


def test_a_delivery_is_read_as_it_was_written() -> None:
    """With chunks, and without."""
    assert delivered(*delivery(JOBS)) == JOBS


def test_the_heads_are_json() -> None:
    """Nodes of other versions read them."""
    heads, _ = delivery(JOBS)
    assert json.loads(heads) == [
        {"incarnation": 1, "assignment": 2, "lane": 3, "weight": 5},
        {"incarnation": 6, "assignment": 7 << 40, "lane": 0, "weight": 1},
    ]


@pytest.mark.parametrize(
    "head",
    [
        7,
        None,
        [],
        {},
        {**HEAD, "incarnation": 2**31},
        {**HEAD, "incarnation": "1"},
        {**HEAD, "assignment": 2**63},
        {**HEAD, "assignment": 0},
        {**HEAD, "assignment": True},
        {**HEAD, "lane": 8},
        {**HEAD, "lane": -1},
        {**HEAD, "weight": 0},
        {**HEAD, "weight": 1.5},
        {**HEAD, "weight": None},
    ],
)
def test_a_delivery_with_numbers_that_no_assignment_has(head: object) -> None:
    """Would fail the statements that complete other jobs together with its own."""
    with pytest.raises(ValueError, match="a delivery has no valid"):
        delivered(json.dumps([HEAD, head]), "{}\n{}")
