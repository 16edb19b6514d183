"""A pipe that sends at once, over a real socket."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from twisted.internet.defer import Deferred
from twisted.protocols import amp

from tests.waiting import eventually, pause, running_reactor
from txqueue.wire.commands import LongText
from txqueue.wire.pipe import BoxReader, PipeFactory, PromptPipe

LARGE = "x" * 200_000


class Tell(amp.Command):
    """Something without an answer."""

    arguments = [(b"text", LongText())]
    response = []
    requiresAnswer = False


class End:
    """A prompt end, and the plain socket at the other end."""

    def __init__(self) -> None:
        self.gone: Deferred[None] = Deferred()
        self.pipe = PromptPipe({}, lost=lambda: self.gone.callback(None))
        ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        with closing(ours):
            ours.setblocking(False)
            running_reactor().adoptStreamConnection(
                ours.fileno(), socket.AF_UNIX, PipeFactory(self.pipe)
            )
        self._boxes = BoxReader()
        self.texts: list[str] = []
        self.is_ended = False

    def reads(self) -> None:
        """Read what has come so far."""
        try:
            while data := self.theirs.recv(65_536):
                self._take(data)
        except BlockingIOError:
            return
        self.is_ended = True

    def _take(self, data: bytes) -> None:
        for box in self._boxes.feed(data):
            told: dict[str, str] = {}
            LongText().fromBox(b"text", box, told, self.pipe)
            self.texts.append(told["text"])

    def has(self, number: int) -> Callable[[], bool]:
        """Whether so many commands have come, once what is there is read."""

        def look() -> bool:
            self.reads()
            return len(self.texts) >= number

        return look


@pytest.fixture
def end() -> Iterator[End]:
    """One end."""
    made = End()
    with closing(made.theirs):
        yield made
        made.pipe.abort()


async def test_a_command_is_sent_before_the_reactor_turns(end: End) -> None:
    """Another one in the same turn as well."""
    for text in ("a", "b"):
        end.pipe.say_now(Tell, text=text)
        end.reads()
        assert end.texts[-1:] == [text]


async def test_commands_that_are_sent_together_arrive_together(end: End) -> None:
    """In order, before the reactor turns, also if the socket does not take all of them."""
    end.pipe.say_each_now(Tell, [{"text": text} for text in "abc"])
    end.reads()
    assert end.texts == ["a", "b", "c"]
    end.pipe.say_each_now(Tell, [{"text": f"{number} {LARGE}"} for number in range(9)])
    await eventually(end.has(12))
    assert end.texts[3:] == [f"{number} {LARGE}" for number in range(9)]


async def test_commands_stay_in_order(end: End) -> None:
    """Whether they wait for the reactor, for the other end, or not at all."""
    sent = []
    for number in range(12):
        for say in (end.pipe.say_now, end.pipe.say, end.pipe.say_now):
            sent.append(f"{number} {LARGE}")
            say(Tell, text=sent[-1])
        if number % 4 == 0:
            await pause(0)
    await eventually(end.has(len(sent)))
    assert end.texts == sent
    # Once all is sent, the socket is used directly again.
    await pause(0)
    end.pipe.say_now(Tell, text="last")
    end.reads()
    assert end.texts[-1] == "last"


async def test_closing_sends_the_rest_first(end: End) -> None:
    """As much as the other end reads."""
    for _ in range(9):
        end.pipe.say_now(Tell, text=LARGE)
    end.pipe.close()
    await eventually(end.has(9))
    await end.gone
    end.reads()
    assert (end.texts, end.is_ended) == ([LARGE] * 9, True)


async def test_the_answer_to_a_command_that_failed_is_the_last(end: End) -> None:
    """The connection closes by itself."""
    end.pipe.sendBox(amp.QuitBox({b"text": b"no"}))
    await end.gone
    end.reads()
    assert (end.texts, end.is_ended) == (["no"], True)


async def test_a_closed_connection_ignores_what_is_sent(end: End) -> None:
    """Before the reactor knows, and after."""
    end.theirs.close()
    end.pipe.say_now(Tell, text="lost")
    await end.gone
    end.pipe.say_now(Tell, text="lost")
