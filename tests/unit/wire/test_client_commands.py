"""What a client that has joined a node sends."""

import json

from txqueue.model.assignment import Assignment
from txqueue.wire.client_commands import delivered, delivery

JOBS = [Assignment(1, 2, 3, 1, 5, "{}"), Assignment(6, 7 << 40, 0, 1, 1, "")]


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
