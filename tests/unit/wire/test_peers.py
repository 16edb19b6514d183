"""Masters that know each other, and strangers who only say that they are masters."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from tests.unit.wire.mesh import LIMIT, Caller, Member, Start, introduced, met, stopped, wired
from tests.waiting import eventually, pause, within
from txqueue.wire import certificate_authority as certificates
from txqueue.wire import guarded_pipes as admission
from txqueue.wire import guarded_pipes as guard
from txqueue.wire.certificate_authority import issue, make_authority
from txqueue.wire.commands import Hello, NotAPeer
from txqueue.wire.tls import Credentials


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An authority's folder with the certificates of nodes a, b and c."""
    make_authority(tmp_path / "tls")
    for name in "abc":
        issue(tmp_path / "tls", "node", name)
    return tmp_path / "tls"


async def test_masters_meet_over_tls(start: Start, folder: Path) -> None:
    """All connect to all, exchange loads, and hand work over by number."""
    a, b, c = start("a", 1, folder), start("b", 2, folder), start("c", 3, folder)
    b.has(outstanding=4)
    await met(a, b, c)
    assert {load.incarnation: load.outstanding for load in a.table.loads()} == {2: 4, 3: 0}
    c.table.forward(1, [11])
    c.table.forward(1, [12, 13])
    await eventually(lambda: a.numbers == [11, 12, 13], LIMIT)
    assert await b.table.steal(3, 5) == ([7, 8], 2)
    assert c.surrendered == [(2, 5)]
    a.table.wake()
    await eventually(lambda: (b.woken, c.woken) == (1, 1), LIMIT)


async def test_masters_meet_on_one_host_without_tls(start: Start) -> None:
    """On loopback there may be no certificates."""
    a, b = start("a", 1), start("b", 2)
    await met(a, b)
    a.has(outstanding=9)
    await eventually(lambda: [load.outstanding for load in b.table.loads()] == [9], LIMIT)


async def test_masters_meet_over_ipv6(folder: Path) -> None:
    """An address is an address."""
    members = [Member(name, number, folder, interface="::1") for number, name in enumerate("ab", 1)]
    for member in members:
        member.peers.startService()
    try:
        await met(*members)
    finally:
        await stopped(members)


async def test_a_node_that_left_is_hung_up_on(start: Start) -> None:
    """When a heartbeat names it no more; and found again when one does."""
    a, b = start("a", 1), start("b", 2)
    await met(a, b)
    b.hears()
    await eventually(lambda: a.connected == [], LIMIT)
    assert b.table.loads() == []
    await met(a, b)


async def test_a_lost_connection_is_made_again(start: Start) -> None:
    """The one that dialled dials again."""
    a, b = start("a", 1), start("b", 2)
    await met(a, b)
    a.peers._server.hang_up()
    await eventually(lambda: b.connected == [], LIMIT)
    await met(a, b)


async def test_a_node_unknown_to_the_last_heartbeat_causes_another(start: Start) -> None:
    """It is refused, has the heartbeat look again, and is let in when it calls again."""
    a, b = start("a", 1), start("b", 2)
    a.hears()
    b.hears(a)
    await eventually(lambda: a.looked_again > 0, LIMIT)
    assert a.connected == []
    await met(a, b)


async def test_a_name_that_is_not_in_the_certificate_is_refused(start: Start, folder: Path) -> None:
    """A node whose certificate names another gets no command handled, on either side."""
    a, liar = start("a", 1, folder), start("b", 2, folder, "c")
    a.hears(liar)
    liar.hears(a)
    await eventually(lambda: liar.peer(1).retry is not None, LIMIT)
    older, b = start("c", 1, folder, "a"), start("b", 2, folder)
    older.hears(b)
    b.hears(older)
    await eventually(lambda: b.peer(1).retry is not None, LIMIT)
    assert [a.connected, older.connected, b.connected] == [[], [], []]
    assert (a.commands, older.commands, b.commands) == (0, 0, 0)


def wrong_authority(folder: Path) -> Credentials:
    """The same name by another authority, which the caller believes."""
    make_authority(folder / "wrong")
    issue(folder / "wrong", "node", "b")
    return Credentials(folder / "wrong", "b")


def expired(folder: Path) -> Credentials:
    """A certificate of the right authority that ended a while ago."""
    return issued_with(folder, "node", -1)


def operator(folder: Path) -> Credentials:
    """A certificate of the right authority and name, for a person."""
    return issued_with(folder, "operator", 1)


def issued_with(folder: Path, role: str, days: int) -> Credentials:
    """A certificate of the right authority for b, in a folder of its own."""
    other = folder / "other"
    other.mkdir()
    for name in ("ca.pem", "ca.key"):
        (other / name).write_bytes((folder / name).read_bytes())
    before, certificates.MARGIN = certificates.MARGIN, timedelta(days=2)
    try:
        issue(other, role, "b", days)
    finally:
        certificates.MARGIN = before
    return Credentials(other, "b")


@pytest.mark.parametrize("credentials", [wrong_authority, expired, operator, None])
async def test_no_command_of_a_stranger_is_handled(
    credentials: Callable[[Path], Credentials] | None, start: Start, folder: Path
) -> None:
    """Without TLS, by another authority, expired or not a node's: it is disconnected."""
    a, b = start("a", 1, folder), start("b", 2, folder)
    a.hears(b)
    caller = Caller()
    shown = None if credentials is None else credentials(folder)
    await caller.calls(a, shown)
    hello = caller.says(Hello, name="b", incarnation=2, version="")
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever a connection ends with
        await within(LIMIT, hello)
    caller.hang_up()
    assert a.connected == []
    assert a.peer(2).pipe is None
    assert a.commands == 0


@pytest.mark.parametrize(("name", "incarnation"), [("c", 2), ("b", 3), ("a", 1), ("", -1)])
async def test_a_hello_that_the_database_does_not_bear_out(
    name: str, incarnation: int, start: Start
) -> None:
    """Name and run must be those of a node that lives."""
    a, b = start("a", 1), start("b", 2)
    a.hears(b)
    caller = Caller()
    await caller.calls(a, None)
    with pytest.raises(NotAPeer):
        await within(LIMIT, caller.says(Hello, name=name, incarnation=incarnation, version=""))
    caller.hang_up()
    await caller.gone


async def test_a_stranger_too_many_crowds_out_the_oldest(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who only hold connections do not keep the others from meeting."""
    monkeypatch.setattr(admission, "MOST_STRANGERS", 2)
    monkeypatch.setattr(guard, "INTRODUCTION", 1)
    a, b = start("a", 1, folder), start("b", 2, folder)
    monkeypatch.setattr(guard, "INTRODUCTION", 600)
    wires = [await wired(a) for _ in range(4)]
    for wire in wires[:2]:
        await within(LIMIT, wire.gone)
    await met(a, b)
    await within(LIMIT, wires[2].gone)
    wires[3].hang_up()
    await within(LIMIT, wires[3].gone)


async def test_a_peer_is_asked_by_one_at_a_time(start: Start) -> None:
    """Until it has answered, the same peer gets nothing more."""
    a, b = start("a", 1), start("b", 2)
    await met(a, b)
    a.answer = Deferred()
    first = Deferred.fromCoroutine(b.table.steal(1, 5))
    await eventually(lambda: a.surrendered == [(2, 5)], LIMIT)
    assert await b.table.steal(1, 5) == ([], 0)
    a.answer.callback(([9], 5))
    assert await first == ([9], 5)


async def test_a_peer_that_hangs_is_given_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question without an answer ends; so does, in the end, a connection without reports."""
    monkeypatch.setattr("txqueue.node.peers.peer.PATIENCE", 0.2)
    monkeypatch.setattr("txqueue.node.peers.network.SILENCE", 0.5)
    a, b = start("a", 1), Member("b", 2)
    a.hears(b)
    caller = await introduced(a)
    assert await a.table.steal(2, 5) == ([], 0)
    await within(LIMIT, caller.gone)
    await pause(0)
    assert a.table.loads() == []


async def test_plaintext_goes_to_no_other_host(start: Start) -> None:
    """A node without certificates does not call one that is beyond loopback."""
    a, b = start("a", 1), start("b", 2)
    b.hears(a, address="192.0.2.1")
    await eventually(lambda: b.peer(1).retry is not None, LIMIT)
    assert b.connected == []
