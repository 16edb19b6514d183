"""AMP's boxes, read and written many at a time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail
from twisted.internet.testing import StringTransport
from twisted.protocols import amp

from tests.fixtures.leftovers import LoggedFailures
from txqueue.wire.commands import LongText
from txqueue.wire.pipe import BoxReader, NoBox, Pipe, Responders, box_bytes

KEYS = st.binary(min_size=1, max_size=255)
BOXES = st.lists(st.dictionaries(KEYS, st.binary(max_size=600), min_size=1, max_size=5), max_size=5)


class Tell(amp.Command):
    """Something without an answer."""

    arguments = [(b"text", LongText()), (b"number", amp.Integer(optional=True))]
    response = []
    requiresAnswer = False


@given(BOXES)
def test_boxes_are_written_as_amp_reads_them(boxes: list[dict[bytes, bytes]]) -> None:
    """All sent bytes are valid AMP."""
    assert amp.parseString(b"".join(map(box_bytes, boxes))) == boxes


@given(BOXES, st.lists(st.integers(min_value=0, max_value=4_000), max_size=8))
def test_boxes_are_read_however_they_come(boxes: list[dict[bytes, bytes]], cuts: list[int]) -> None:
    """In one piece, or cut anywhere, in the middle of a length as well."""
    data = b"".join(amp.AmpBox(box).serialize() for box in boxes)
    ends = [*sorted(cuts), len(data)]
    reader = BoxReader()
    pieces = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert [box for piece in pieces for box in reader.feed(piece)] == boxes


@pytest.mark.parametrize(
    ("limits", "data"),
    [
        ((), b"GET / HTTP/1.1\r\n\r\n"),
        ((100,), b"\0\1k\0\x70"),
        ((100,), box_bytes({b"a": b"x" * 50, b"b": b"x" * 50})),
    ],
)
def test_what_is_too_large_is_refused_by_its_length(limits: tuple[int, ...], data: bytes) -> None:
    """Not when all of it has come; what was complete before it counts."""
    good = {b"k": b"v"}
    boxes = BoxReader(*limits).feed(box_bytes(good) + data)
    assert next(boxes) == good
    with pytest.raises(NoBox):
        next(boxes)


def test_a_box_of_the_largest_value_fits() -> None:
    """One byte more does not, and says so before anything is sent."""
    box = {b"k" * 255: b"v" * 65_535}
    assert list(BoxReader().feed(box_bytes(box))) == [box]
    with pytest.raises(OverflowError):
        box_bytes({b"k": b"v" * 65_536})


def end(responders: Responders) -> tuple[Pipe, StringTransport]:
    """One end, and what it writes to."""
    pipe, transport = Pipe(responders, lost=lambda: None), StringTransport()
    wire: Any = transport
    pipe.makeConnection(wire)
    return pipe, transport


@pytest.mark.parametrize("asks", [False, True])
def test_a_command_is_carried_out_whether_an_answer_is_wanted_or_not(asks: bool) -> None:
    """A foreign client may request an answer that is not needed."""
    heard: list[tuple[str, int | None]] = []

    def hear(text: str, number: int | None) -> dict[str, Any]:
        heard.append((text, number))
        return {}

    sender, sent = end({})
    receiver, answered = end({Tell: hear})
    assert sender.say(Tell, text="é" * 70_000, number=7) is None
    boxes = amp.parseString(sent.value())
    if asks:
        boxes[0][amp.ASK] = b"1"
    receiver.dataReceived(boxes[0].serialize())
    assert heard == [("é" * 70_000, 7)]
    assert amp.parseString(answered.value()) == ([{amp.ANSWER: b"1"}] if asks else [])


def test_an_argument_may_be_left_out() -> None:
    """As AMP has it."""
    heard: list[Any] = []
    sender, sent = end({})
    receiver, _ = end({Tell: lambda **said: heard.append(said)})
    sender.say(Tell, text="?")
    receiver.dataReceived(sent.value())
    assert heard == [{"text": "?", "number": None}]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_command_that_fails_ends_the_connection(
    is_late: bool, logged_failures: LoggedFailures
) -> None:
    """And is logged: both ends are ours."""
    problem = ValueError("no")

    def hear(**_said: Any) -> Deferred[None]:
        if is_late:
            return fail(problem)
        raise problem

    receiver, transport = end({Tell: hear})
    receiver.dataReceived(box_bytes({amp.COMMAND: Tell.commandName, b"text": b"?"}))
    assert transport.disconnecting
    assert logged_failures.flush() == [problem]
