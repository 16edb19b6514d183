"""Credit between a node and the processes that joined it, and what they deliver."""

from typing import Any, cast

import pytest
from twisted.logger import formatEvent, globalLogPublisher

from tests.fixtures.leftovers import LoggedFailures
from tests.unit.node.doubles import is_rung
from tests.unit.node.joined import INCARNATION, QUEUE, House, put
from txqueue.errors import ConfigurationError
from txqueue.model.assignment import Assignment
from txqueue.node.state.arrivals import BLOCK, REMEMBERED, Deduplicator
from txqueue.policy.placement.credit import MOST_CREDIT, NodeLoad, credit_limit, new_credit
from txqueue.store.node.run_functions import HeartbeatReply

PEER = 11


def own(outstanding: int = 0, capacity: int = 100) -> NodeLoad:
    """The node that gives the credit."""
    return NodeLoad(1, 1, outstanding, capacity)


def test_an_idle_cluster_shares_new_credit() -> None:
    """The own node first, then the others, until all have the same."""
    nodes = [own(), NodeLoad(2, 2, 0, 100), NodeLoad(3, 3, 0, 100)]
    assert new_credit(nodes, 4) == {1: 4}
    assert new_credit(nodes, 32) == {1: 12, 2: 12, 3: 8}


def test_the_least_loaded_node_is_given_credit_for() -> None:
    """As a part of what each can be handed."""
    nodes = [own(50), NodeLoad(2, 2, 30, 100), NodeLoad(3, 3, 80, 400)]
    assert new_credit(nodes, 4) == {3: 4}
    assert new_credit([own(50), NodeLoad(2, 2, 30, 100)], 20) == {2: 20}


def test_no_credit_beyond_room() -> None:
    """Nor for less than a step; small nodes get small steps."""
    assert new_credit([own(98)], 32) == {}
    assert new_credit([own(90)], 32) == {1: 8}
    assert new_credit([own(0, 5)], 3) == {1: 3}
    assert new_credit([], 32) == {}


def test_clients_share_the_room() -> None:
    """Each has a bound as well."""
    assert credit_limit([own()], 1) == MOST_CREDIT
    assert credit_limit([own()], 10) == 10
    assert credit_limit([own(), NodeLoad(2, 2, 0, 100)], 10) == 20
    assert credit_limit([own(0, 5)], 10) == 0
    assert credit_limit([], 0) == 0


def test_arrivals() -> None:
    """Each number is new once, as far back as matters."""
    deduplicator = Deduplicator()
    assert deduplicator.accept(1)
    assert not deduplicator.accept(1)
    assert deduplicator.accept(2)
    for number in range(BLOCK, REMEMBERED * BLOCK, BLOCK // 2):
        assert deduplicator.accept(number)
        assert not deduplicator.accept(number)
    assert not deduplicator.accept(1)
    assert deduplicator.accept(REMEMBERED * BLOCK)
    assert deduplicator.accept(1)


def test_credit_comes_with_joining() -> None:
    """Once a claim has found nothing, not before: waiting jobs are not overtaken."""
    house = House()
    client = house.client()
    assert client.credit == {}
    house.settled()
    client.flush()
    assert client.credit == {INCARNATION: MOST_CREDIT}
    later = house.client()
    assert later.credit == {INCARNATION: MOST_CREDIT}


def drain(house: House, *, drain: bool) -> None:
    """An operator drains or undrains the node; a heartbeat returns the order."""
    house.lifecycle.order(drain=drain)
    state = "draining" if drain else "alive"
    house.credits.on_heartbeat(HeartbeatReply(owned=True, state=state, peers=[], cancels=[]))


@pytest.mark.parametrize("why", ["backlog", "closed", "no lease"])
def test_credit_is_withdrawn(why: str) -> None:
    """When there is a backlog, when the node drains, when its lease is lost; and comes back."""
    house = House()
    client = house.client()
    house.settled()
    if why == "backlog":
        house.credits.on_backlog(has_backlog=True)
    elif why == "closed":
        drain(house, drain=True)
    else:
        house.lease.forget()
        house.credits.review()
    client.flush()
    assert client.credit == {}
    assert client.membership.credit_for(1) is None
    house.begins_anew()
    house.credits.on_backlog(has_backlog=False)
    drain(house, drain=False)
    house.credits.review()
    client.flush()
    assert client.credit == {INCARNATION + 1: MOST_CREDIT}


def test_what_is_delivered_is_performed_once() -> None:
    """In the order of arrival; its credit is renewed."""
    house = House()
    client = house.client()
    house.settled()
    client.flush()
    credit = client.membership.credit_for(1)
    assert credit is not None
    credit.weight -= 20
    client.membership.deliver([put(5, 15, chunk='[["a"]]'), put(6, 5)])
    client.membership.deliver([put(6, 5)])
    client.flush()
    assert house.workers.performed == [
        Assignment(INCARNATION, 5, 2, 1, 15, '[["a"]]'),
        Assignment(INCARNATION, 6, 2, 1, 5, "[]"),
    ]
    assert client.credit[INCARNATION] >= MOST_CREDIT
    assert house.credits.describe()["delivered"] == 2


def test_what_the_node_must_read_or_forward() -> None:
    """Jobs told by their numbers, and those of another node or of a former run."""
    house = House()
    house.peers = [NodeLoad(4, PEER, 0, 100)]
    client = house.client()
    house.settled()
    client.flush()
    assert client.credit == {INCARNATION: 16, PEER: 16}
    client.membership.deliver([put(5, chunk=""), put(6, to=PEER, chunk=""), put(7, to=2)])
    client.flush()
    assert house.workers.performed == []
    assert house.inbox.numbers == [5]
    assert house.forwarded == {PEER: [6], 2: [7]}


def test_own_credit_goes_first() -> None:
    """Then a peer's; a job heavier than either has none."""
    house = House()
    house.peers = [NodeLoad(4, PEER, 0, 100)]
    client = house.client()
    house.settled()
    client.flush()
    first = client.membership.credit_for(16)
    assert first is not None
    assert (first.incarnation, first.is_own) == (INCARNATION, True)
    first.weight = 0
    second = client.membership.credit_for(1)
    assert second is not None
    assert (second.incarnation, second.is_own) == (PEER, False)
    assert client.membership.credit_for(17) is None


def test_a_full_node_has_no_credit_left() -> None:
    """It is withdrawn once a part of it is spent, and given again as room is made."""
    house = House(40)
    client = house.client()
    house.settled()
    house.workers.held = 35
    client.membership.deliver([put(1, 10)])
    client.flush()
    assert client.credit == {}
    house.workers.held = 0
    house.credits.on_room()
    client.flush()
    assert client.credit == {INCARNATION: MOST_CREDIT}


def test_a_peer_that_is_full_or_gone() -> None:
    """Its credit is withdrawn, the others' stays."""
    house = House()
    house.peers = [NodeLoad(4, PEER, 0, 100)]
    client = house.client()
    house.settled()
    house.peers = [NodeLoad(4, PEER, 100, 100)]
    house.credits.review()
    client.flush()
    assert client.credit == {INCARNATION: MOST_CREDIT}


def test_a_peer_that_comes_later() -> None:
    """Unused credit is redistributed over all nodes; well-placed credit stays."""
    house = House()
    client = house.client()
    house.settled()
    client.flush()
    assert client.credit == {INCARNATION: MOST_CREDIT}
    house.peers = [NodeLoad(4, PEER, 0, 100)]
    for _ in range(3):
        house.clock.advance(1)
        house.settled()
        client.flush()
        assert client.credit == {INCARNATION: 16, PEER: 16}
    house.peers = []
    house.clock.advance(1)
    house.settled()
    client.flush()
    assert client.credit == {INCARNATION: MOST_CREDIT}


def test_many_clients() -> None:
    """Those who came first give way, and a client that leaves makes room."""
    house = House(40)
    house.settled()
    clients = [house.client() for _ in range(4)]
    for client in clients:
        client.flush()
    assert [client.credit for client in clients] == [{INCARNATION: 10}] * 4
    for client in clients[1:]:
        client.membership.close()
        client.flush()
    house.credits.on_room()
    clients[0].flush()
    assert clients[0].credit == {INCARNATION: 32}


def test_once_a_client_has_left_jobs_that_it_did_not_send_are_looked_for() -> None:
    """It may have died between the commit and the message, also where heartbeats are rare."""
    house = House()
    client = house.client()
    assert not is_rung(house.wakeups.reconciliation)
    client.membership.close()
    client.flush()
    assert is_rung(house.wakeups.reconciliation)


def test_a_client_of_another_queue(logged_failures: LoggedFailures) -> None:
    """Is refused, has no credit, and what it delivers is not performed."""
    house = House()
    house.settled()
    client = house.client("of another database")
    assert client.credit == {}
    assert house.credits.describe()["joined"] == 0
    client.membership.deliver([put(1)])
    client.membership.wake()
    client.membership.close()
    assert house.workers.performed == []
    assert not is_rung(house.wakeups.claimer)
    assert house.clock.getDelayedCalls() == []


def test_a_refused_join_names_both_databases() -> None:
    """In the node's log, with the client's text made harmless, and in the client's."""
    texts: list[str] = []

    def observer(event: Any) -> None:
        texts.append(formatEvent(event))

    globalLogPublisher.addObserver(cast("Any", observer))
    try:
        house = House()
        house.client("orders\x1b[31m").membership.close()
    finally:
        globalLogPublisher.removeObserver(cast("Any", observer))
    [refused] = [each for each in texts if each.startswith("refused a process")]
    assert "another queue, the database of orders\\x1b[31m, than" in refused
    assert f"this node serves, the database of {QUEUE};" in refused
    [told] = [each for each in texts if each.startswith("not joined")]
    assert f"the node serves another queue, the database of {QUEUE}" in told


def test_a_database_that_became_another_queue() -> None:
    """The node reads its queue again when a client of another one comes, and then fits."""
    house = House()
    house.settled()
    assert house.client().credit
    house.queue = "restored"
    assert house.client("restored").credit


def test_a_client_outlives_its_node() -> None:
    """It tries again at growing pauses and has the credit of the node's next run only."""
    house = House()
    house.settled()
    client = house.client()
    assert client.credit
    house.is_up = False
    house.hang_up()
    assert client.credit == {}
    client.membership.deliver([put(1)])
    client.membership.wake()
    house.clock.pump([0.5] * 40)
    house.is_up = True
    house.begins_anew()
    house.credits.review()
    for _ in range(30):
        house.clock.advance(0.5)
        client.flush()
    assert client.credit == {INCARNATION + 1: MOST_CREDIT}
    assert house.workers.performed == []
    client.membership.close()
    client.flush()
    assert house.clock.getDelayedCalls() == []


def test_a_node_that_does_not_answer() -> None:
    """Is given up after a while and tried again."""
    house = House()
    house.settled()
    client = house.client(answers=False)
    house.clock.advance(3.5)
    assert client.credit == {}
    house.clock.advance(0.2)
    client.flush()
    assert client.credit == {INCARNATION: MOST_CREDIT}
    assert house.credits.describe()["joined"] == 1
    client.membership.close()


@pytest.mark.parametrize("is_full", [False, True])
def test_a_wake(is_full: bool) -> None:
    """Reaches the node, and its peers if it has no room itself."""
    house = House()
    client = house.client()
    house.workers.held = house.workers.capacity if is_full else 0
    client.membership.wake()
    client.flush()
    assert is_rung(house.wakeups.claimer)
    assert house.peers_woken == is_full


def test_only_a_unix_socket_can_be_joined() -> None:
    """Any account of this host may listen at a port."""
    from txqueue.client.node_link import joinable
    from txqueue.wire.endpoints import parsed_endpoint

    endpoint = parsed_endpoint("unix:/run/a.sock")
    assert joinable(endpoint) is endpoint
    with pytest.raises(ConfigurationError, match="cannot join a node at tcp"):
        joinable(parsed_endpoint("tcp:4000"))
