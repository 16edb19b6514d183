"""The nodes to which a node connects: all, up to sixteen, and both of two find each other."""

import pytest

from tests.db.masters import Master

SCANS = "select seq_scan from pg_stat_xact_user_tables where relname = 'node_info'"


def circle(node: Master, size: int) -> dict[int, set[int]]:
    """Register so many nodes that listen; returns the incarnations that each receives."""
    numbers = [node.register(f"node-{number}")[1] for number in range(size)]
    node.cursor.execute(
        "update txqueue.node_info set address = '127.0.0.1', port = 1 where name ~ '^node-'"
    )
    asked = (
        "select array(select (each ->> 'incarnation')::integer from jsonb_array_elements(peers)"
        " as each) from txqueue.heartbeat(%s, 0)"
    )
    return {number: set(node.value(asked, number)) for number in numbers}


@pytest.mark.parametrize("size", [1, 2, 3, 9, 17])
def test_few_nodes_connect_to_all_others(node: Master, size: int) -> None:
    """A node that does not listen is not among them."""
    told = circle(node, size)
    assert all(others == told.keys() - {number} for number, others in told.items())


@pytest.mark.parametrize("size", [18, 40])
def test_many_nodes_connect_to_sixteen_each(node: Master, size: int) -> None:
    """Of two, both receive the other, or neither; and from each there is a way to all."""
    told = circle(node, size)
    assert {len(others) for others in told.values()} == {16}
    assert all(number in told[other] for number, others in told.items() for other in others)
    reached: set[int] = set()
    found = {min(told)}
    while found:
        reached |= found
        found = {other for number in found for other in told[number]} - reached
    assert reached == told.keys()


def test_dead_and_stopped_nodes_leave_the_circle(node: Master) -> None:
    """Those beyond them take their place."""
    told = circle(node, 20)
    gone = sorted(told)[5:8]
    node.cursor.execute(
        "update txqueue.node_info set state = 'dead' where incarnation = any(%s)", (gone,)
    )
    asked = "select count(*), bool_or(incarnation = any(%s)) from txqueue.nearest_nodes(%s)"
    node.cursor.execute(asked, (gone, min(told)))
    assert node.cursor.fetchall() == [(16, False)]


def test_the_nearest_of_many_nodes_are_read_by_their_index(node: Master) -> None:
    """A heartbeat that read and sorted all nodes would cost more with each node that is added."""
    numbers = sorted(circle(node, 40))
    node.connection.autocommit = False
    before = node.value(SCANS)
    for number in (numbers[0], numbers[20], numbers[-1]):
        assert node.value("select count(*) from txqueue.nearest_nodes(%s)", number) == 16
        assert node.value("select txqueue.first_end(%s)", number) > 0
    assert node.value(SCANS) == before
    node.connection.rollback()
