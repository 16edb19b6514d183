"""A guarded pipe with a peer that hangs, lies or floods."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols import amp
from twisted.python.failure import Failure

from txqueue.wire import guarded_pipes
from txqueue.wire.commands import LongText
from txqueue.wire.guarded_pipes import (
    IDLE,
    MOST_COMMANDS,
    CertifiedPipe,
    GuardedPipe,
    UncertifiedPipe,
    crowded_out,
)


class Say(amp.Command):
    """Something with an answer."""

    arguments = [(b"text", LongText())]
    response = [(b"text", LongText())]


class Transport(StringTransport):
    """A connection whose other end reads only when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False
        self.is_reading = True

    def abortConnection(self) -> None:
        """Record that the connection was closed."""
        self.is_aborted = True

    def pauseProducing(self) -> None:
        """Read no more."""
        self.is_reading = False

    def resumeProducing(self) -> None:
        """Read again."""
        self.is_reading = True


class End:
    """A guarded end, and what it was asked to do."""

    def __init__(self, kind: type[GuardedPipe] = GuardedPipe) -> None:
        self.clock = Clock()
        self.said: list[str] = []
        self.answer: Any = {"text": "yes"}
        self.pipe = kind(self.clock, {Say: self._say}, lost=lambda: None)
        self.transport = Transport()
        wire: Any = self.transport
        self.pipe.makeConnection(wire)

    def _say(self, text: str) -> Any:
        self.said.append(text)
        return self.answer

    def known(self) -> "End":
        """Mark the other end as known."""
        self.pipe.introduce()
        self.pipe.watch_reading()
        return self

    def gets(self, data: bytes) -> "End":
        """Receive bytes."""
        self.pipe.dataReceived(data)
        return self

    @property
    def fate(self) -> str | None:
        """Why it closed the connection; None if it is open."""
        assert self.transport.is_aborted == (self.pipe.why_dropped is not None)
        return self.pipe.why_dropped

    def lost(self) -> None:
        """Lose the connection; nothing is left of it."""
        self.pipe.connectionLost(Failure(ConnectionDone()))
        assert self.clock.getDelayedCalls() == []


def box(**values: bytes) -> bytes:
    """A box as it goes over the wire."""
    serialised: bytes = amp.AmpBox({k.encode(): v for k, v in values.items()}).serialize()
    return serialised


def ask(number: int, text: bytes = b"?") -> bytes:
    """A command that wants an answer."""
    return box(_ask=b"%d" % number, _command=Say.commandName, text=text)


def test_a_stranger_has_some_seconds() -> None:
    """A stranger is closed in time; a known connection may be silent."""
    silent, known = End(), End().known()
    for end in (silent, known):
        end.clock.advance(guarded_pipes.INTRODUCTION)
    assert (silent.fate, known.fate) == ("did not identify itself in time", None)
    silent.lost()
    known.lost()


def test_a_stranger_s_box_is_small() -> None:
    """An identified peer may send more; the limit applies before the end of the box is read."""
    text = b"x" * guarded_pipes.STRANGER_BOX
    assert End().gets(ask(1, text)[:-2]).fate == "sent a box that is too large"
    known = End().known().gets(ask(1, text))
    assert (known.fate, known.said) == (None, [text.decode()])


def test_a_peer_that_does_not_read_is_not_read() -> None:
    """Its answers would fill the memory; once it reads, it may ask again."""
    end = End().known()
    end.pipe.pauseProducing()
    assert not end.transport.is_reading
    end.pipe.resumeProducing()
    assert end.transport.is_reading
    end.lost()


def test_a_port_without_tls_takes_few_commands_of_a_connection() -> None:
    """Those before are carried out."""
    end = End(UncertifiedPipe).gets(b"".join(ask(number) for number in range(MOST_COMMANDS)))
    assert end.fate is None
    assert end.gets(ask(0)).fate == "sent too many commands"
    assert len(end.said) == MOST_COMMANDS
    end.lost()


def test_a_port_without_tls_closes_idle_connections() -> None:
    """Soon without a command, later after one."""
    silent, other = End(UncertifiedPipe), End(UncertifiedPipe)
    other.gets(ask(1))
    for end in (silent, other):
        end.clock.advance(guarded_pipes.INTRODUCTION)
    assert (silent.fate is None, other.fate) == (False, None)
    other.clock.advance(IDLE)
    assert other.fate == "did not identify itself in time"


def test_nothing_is_carried_out_before_a_certificate_is_shown() -> None:
    """Neither a command nor one of AMP's own."""
    for data in (ask(1), box(_ask=b"1", _command=b"StartTLS")):
        end = End(CertifiedPipe).gets(data)
        assert (end.fate, end.said) == ("sent a command before it showed a certificate", [])


@given(st.lists(st.sampled_from("abc"), min_size=1))
def test_who_crowds_is_crowded_out(addresses: list[str]) -> None:
    """The oldest connection of an address that has the most of them."""
    place = crowded_out(addresses)
    crowd = addresses[place]
    assert addresses.index(crowd) == place
    assert addresses.count(crowd) == max(addresses.count(each) for each in addresses)


KEYS = st.sampled_from([b"_ask", b"_command", b"_answer", b"_error", b"text", b"text.1", b"k"])
VALUES = st.one_of(st.binary(max_size=40), st.sampled_from([b"1", Say.commandName, b"\xff"]))
BOXES = st.dictionaries(KEYS, VALUES, min_size=1).map(lambda box: amp.AmpBox(box).serialize())


@given(data=st.lists(st.one_of(st.binary(), BOXES)).map(b"".join), is_known=st.booleans())
def test_whatever_comes_is_answered_or_ends_the_connection(data: bytes, is_known: bool) -> None:
    """No exception, no traceback in the log, nothing kept but one box."""
    end = End().known() if is_known else End()
    end.gets(data)
    reader = end.pipe._boxes
    kept = len(reader._rest) + sum(len(key) + len(value) for key, value in reader._box.items())
    assert kept <= len(data)
    assert end.fate is None or end.pipe.is_closed
    end.lost()


@given(data=st.data())
def test_a_command_that_was_tampered_with(data: Any) -> None:
    """One byte is another: it is carried out, refused, or the connection ends."""
    whole = bytearray(ask(1, b"text") + ask(2, b"more"))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    end = End().known().gets(bytes(whole))
    assert len(end.said) <= 2
    end.lost()
