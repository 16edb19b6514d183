"""What nodes report of their load to their peers."""

from attrs import evolve

from txqueue.policy.placement.peers import NodeReport


def test_a_report_arrives_as_it_was_sent() -> None:
    """The database, not the report, gives the node's identity and capacity."""
    sent = evolve(NodeReport(1, 1, 10, 25, 20, 15, 5), lag=0.5, memory=7, workers=3, version="1.2")
    row = {"node_id": 4, "incarnation": 5, "capacity": 6, "state": "alive"}
    expected = evolve(sent, node_id=4, incarnation=5, capacity=6)
    assert NodeReport.read(row, sent.as_text()) == expected
    assert NodeReport.read({**row, "state": "draining"}, sent.as_text()).is_draining
