"""A master with a valid certificate that lies, repeats messages or floods harms no other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.protocols import amp

from tests.unit.wire.mesh import LIMIT, Caller, Member, Start, introduced, met
from tests.waiting import eventually, within
from txqueue.node.peers.peer import MOST_NUMBERS, numbers_in
from txqueue.policy.placement.peers import NodeReport
from txqueue.wire.commands import Hello, ReportLoad, Steal, Take, WakePeer


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (Take, {"assignments": "one"}),
        (ReportLoad, {"load": "[]"}),
        (ReportLoad, {"load": "{"}),
        (ReportLoad, {"load": '{"outstanding": -1}'}),
        (ReportLoad, {"load": '{"lag": []}'}),
    ],
)
async def test_a_peer_s_nonsense_ends_its_connection(
    command: Any, arguments: dict[str, object], start: Start
) -> None:
    """And is no traceback in the log, nor anything else."""
    a, b = start("a", 1), Member("b", 2)
    a.hears(b)
    caller = await introduced(a)
    answer = caller.pipe.say(command, **arguments)
    if answer is not None:
        answer.addErrback(lambda _: None)
    await within(LIMIT, caller.gone)
    assert a.commands == 0


async def test_a_lie_about_the_load_is_bounded(start: Start) -> None:
    """No node has more room than the database and its pace allow."""
    a, b = start("a", 1), Member("b", 2)
    a.hears(b)
    caller = await introduced(a)
    caller.pipe.say(ReportLoad, load='{"limit": 1000000000, "workers": 1, "capacity": 1000000}')
    (load,) = await eventually(a.table.loads, LIMIT)
    assert load.capacity == 20_010
    assert a.table.reports[0].capacity == 10
    caller.hang_up()
    await caller.gone


async def test_an_identified_peer_cannot_change_its_identity(start: Start) -> None:
    """A second greeting on one connection is refused, whatever it says; the first holds."""
    a, b = start("a", 1), Member("b", 2)
    a.hears(b, Member("c", 3))
    caller = await introduced(a)
    with pytest.raises(Exception, match="names another node"):
        await within(LIMIT, caller.says(Hello, name="c", incarnation=3, version=""))
    assert a.connected == []
    caller.hang_up()
    await caller.gone


async def test_a_greeting_again_ends_the_connection_before(start: Start) -> None:
    """Two of one name do not both count: the later is believed, as after a lost connection."""
    a, b = start("a", 1), Member("b", 2)
    a.hears(b)
    first = await introduced(a)
    second = await introduced(a)
    await within(LIMIT, first.gone)
    second.pipe.say(WakePeer)
    await eventually(lambda: a.woken == 1, LIMIT)
    second.hang_up()
    await second.gone


async def test_an_honest_peer_is_served_beside_a_liar(start: Start) -> None:
    """While one sends numbers of nothing, the other's questions are answered."""
    a, b = start("a", 1), start("b", 2)
    liar = Member("c", 3)
    await met(a, b)
    a.hears(b, liar)
    caller = await introduced(a, "c", 3)
    for number in range(50):
        caller.pipe.say(Take, assignments=f"{number},{2**63 - 1}").addErrback(lambda _: None)
    assert await b.table.steal(1, 5) == ([7, 8], 2)
    assert a.surrendered == [(2, 5)]
    caller.hang_up()
    await caller.gone


@pytest.mark.parametrize("text", ["-1", "0", str(2**63), "1" * 5000, "1e3", "٣x", "1,,x"])
def test_numbers_that_are_no_assignments(text: str) -> None:
    """They are refused before a query of the database."""
    with pytest.raises(ValueError, match=r"not an assignment number|invalid literal|Exceeds"):
        numbers_in(text)


@given(st.lists(st.integers(1, 2**63 - 1)))
def test_numbers_come_as_they_were_sent(numbers: list[int]) -> None:
    """Up to as many as a message may have."""
    assert numbers_in(",".join(map(str, numbers))) == numbers[:MOST_NUMBERS]


@given(st.text())
def test_any_report_is_read_or_refused(text: str) -> None:
    """What is no report is an error that ends the connection, never another one."""
    row = {"node_id": 1, "incarnation": 1, "capacity": 10, "state": "alive"}
    try:
        report = NodeReport.read(row, text)
    except (ValueError, TypeError, RecursionError):
        return
    assert report.free >= 0


NUMBER = st.integers().map(str) | st.text(max_size=5)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=10),
        "incarnation": NUMBER,
        "version": st.text(max_size=10),
        "load": st.text(max_size=50),
        "assignments": st.lists(NUMBER, max_size=5).map(",".join),
        "weight": NUMBER,
    },
)
COMMANDS = st.sampled_from([Hello, ReportLoad, Take, Steal, WakePeer]).map(
    lambda each: each.commandName
)


@pytest.mark.parametrize("is_introduced", [False, True])
async def test_whatever_a_connection_says_the_others_stay(
    is_introduced: bool, start: Start
) -> None:
    """Boxes of all commands with any arguments, of a stranger and of a peer."""
    a, b = start("a", 1), start("b", 2)
    await met(a, b)
    a.hears(b, Member("c", 3))
    boxes: list[bytes] = []

    @given(COMMANDS, ARGUMENTS, st.booleans())
    def collect(command: bytes, arguments: dict[str, str], is_asked: bool) -> None:
        box = {key.encode(): value.encode(errors="replace") for key, value in arguments.items()}
        asked = {b"_ask": b"1"} if is_asked else {}
        boxes.append(amp.AmpBox({b"_command": command, **box, **asked}).serialize())

    collect()
    for data in boxes:
        caller = await (introduced(a, "c", 3) if is_introduced else called(a))
        transport: Any = caller.pipe.transport
        transport.write(data)
        transport.loseConnection()
        await within(LIMIT, caller.gone)
    assert a.connected == ["b"]
    assert await b.table.steal(1, 5) == ([7, 8], 2)
    assert all(number > 0 for number in a.numbers)
    assert [weight for _, weight in a.surrendered if weight <= 0] == []


async def called(a: Member) -> Caller:
    """A stranger who is connected."""
    caller = Caller()
    await caller.calls(a, None)
    return caller
