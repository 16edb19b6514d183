"""What nodes report to their peers, and which work moves to which of them."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.placement.peers import (
    NodeReport,
    Transfer,
    choose_steal,
    drain_shares,
    overflow_shares,
)


def node(number: int, outstanding: int = 0, *, limit: int = 10, capacity: int = 10) -> NodeReport:
    """A node that holds so much, of which what is above its capacity has waited for a while."""
    return NodeReport(
        number,
        number,
        capacity=capacity,
        outstanding=outstanding,
        limit=limit,
        ahead=max(0, outstanding - capacity),
        excess=max(0, outstanding - limit),
    )


reports = st.builds(
    node,
    st.integers(1, 9),
    st.integers(0, 100),
    limit=st.integers(10, 30),
    capacity=st.integers(1, 10),
)


def test_an_idle_node_asks_the_peer_with_most_waiting() -> None:
    """For as much as it can start at once."""
    assert choose_steal(node(1), [node(2, 12), node(3, 15), node(4)]) == Transfer(3, 5)
    assert choose_steal(node(1), [node(3, 26)]) == Transfer(3, 10)


def test_it_asks_for_its_part_of_much() -> None:
    """Rather than often for little; up to a bound."""
    assert choose_steal(node(1), [node(3, 110)]) == Transfer(3, 50)
    assert choose_steal(node(1), [node(2), node(3, 110), node(4)]) == Transfer(3, 25)
    assert choose_steal(node(1), [node(3, 100_010)]) == Transfer(3, 2_000)


@pytest.mark.parametrize(
    ("mine", "peer"),
    [
        (node(1), node(2, 10)),
        (node(1, 6), node(2, 100)),
        (node(1, 10), node(2, 100)),
        (evolve(node(1), is_draining=True), node(2, 100)),
        (evolve(node(1, 11, limit=40), outstanding=9, ahead=90), node(2, 100)),
    ],
    ids=["nothing waits", "busy", "full", "drains", "has as much waiting"],
)
def test_when_no_peer_is_asked(mine: NodeReport, peer: NodeReport) -> None:
    """The peer runs all it has, or this node has enough to do."""
    assert choose_steal(mine, [peer]) is None
    assert choose_steal(mine, []) is None


@given(reports, reports)
def test_what_was_taken_is_not_asked_back(thief: NodeReport, victim: NodeReport) -> None:
    """Once the work has moved, the one that gave it does not ask the one that took it."""
    moved = choose_steal(thief, [victim])
    if moved is None:
        return
    assert 0 < moved.weight <= victim.ahead
    after = node(1, thief.outstanding + moved.weight, limit=thief.limit, capacity=thief.capacity)
    rest = node(2, victim.outstanding - moved.weight, limit=victim.limit, capacity=victim.capacity)
    back = choose_steal(rest, [after])
    assert back is None or after.ahead > rest.ahead


def test_overflow_goes_to_peers_that_could_start_some() -> None:
    """By their room, and never more than that."""
    peers = [node(2, 5), node(3, 1), node(4, 12, limit=40)]
    assert overflow_shares(node(1, 17), peers) == [Transfer(3, 5), Transfer(2, 3)]
    assert overflow_shares(node(1, 50), peers) == [Transfer(3, 9), Transfer(2, 5)]
    assert overflow_shares(node(1, 50), [node(2, 10), node(3, 12)]) == []
    assert overflow_shares(node(1, 10), [node(2)]) == []
    assert overflow_shares(node(1, 50), [evolve(node(2), is_draining=True)]) == []
    assert overflow_shares(node(1, 50), []) == []


def test_a_draining_node_shares_out_by_room() -> None:
    """No peer gets more than its room; the rest stays."""
    peers = [node(2, 5), node(3), node(4, 10)]
    assert drain_shares(6, peers) == [Transfer(3, 4), Transfer(2, 2)]
    assert drain_shares(100, peers) == [Transfer(3, 10), Transfer(2, 5)]
    assert drain_shares(6, [node(4, 10)]) == []
    assert drain_shares(0, peers) == []


def test_a_report_arrives_as_it_was_sent() -> None:
    """The database, not the report, gives the node's identity and capacity."""
    sent = evolve(NodeReport(1, 1, 10, 25, 20, 15, 5), lag=0.5, memory=7, workers=3, version="1.2")
    row = {"node_id": 4, "incarnation": 5, "capacity": 6, "state": "alive"}
    expected = evolve(sent, node_id=4, incarnation=5, capacity=6)
    assert NodeReport.read(row, sent.as_text()) == expected
    assert NodeReport.read({**row, "state": "draining"}, sent.as_text()).is_draining
