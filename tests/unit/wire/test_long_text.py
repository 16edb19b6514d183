"""Text of any length through AMP, over an in-memory connection."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.protocols import amp
from twisted.test.iosim import connectedServerAndClient

from txqueue.wire.commands import LongText
from txqueue.wire.pipe import Pipe

PART = 65_000


class Echo(amp.Command):
    """Text there and back, beside another argument."""

    arguments = [(b"text", LongText()), (b"number", amp.Integer())]
    response = [(b"text", LongText()), (b"other", LongText())]


class Tell(amp.Command):
    """Text one way."""

    arguments = [(b"text", LongText())]
    response = []
    requiresAnswer = False


def echoed(*texts: str) -> list[dict[str, Any]]:
    """Send texts all at once and return the answers."""

    def answer(text: str, number: int) -> dict[str, Any]:
        return {"text": text, "other": str(number)}

    client, _, pump = connectedServerAndClient(
        lambda: Pipe({Echo: answer}, lambda: None), lambda: Pipe({}, lambda: None)
    )
    answers: list[dict[str, Any]] = []
    asked: list[Deferred[Any]] = [
        client.say(Echo, text=text, number=number) for number, text in enumerate(texts)
    ]
    for each in asked:
        each.addCallback(answers.append)
    pump.flush()
    return answers


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.integers(0, 300_000),
)
def test_any_text_comes_back(pattern: str, length: int) -> None:
    """Whatever its length, and wherever its characters of several bytes fall."""
    text = (pattern * (length // len(pattern) + 1))[:length]
    assert [text] == [answer["text"] for answer in echoed(text)]


@pytest.mark.parametrize("length", [0, 1, PART - 1, PART, PART + 1, 2 * PART, 300_000])
def test_lengths_around_the_parts(length: int) -> None:
    """An empty text, a full part, one more."""
    text = "x" * length
    assert [{"text": text, "other": "0"}] == echoed(text)


@pytest.mark.parametrize("before", range(PART - 4, PART + 1))
@pytest.mark.parametrize("character", ["é", "€", "🎉"])
def test_a_character_may_lie_across_parts(before: int, character: str) -> None:
    """Its bytes are joined before they are decoded."""
    text = "x" * before + character + "y" * PART + character
    assert [text] == [answer["text"] for answer in echoed(text)]


def test_texts_do_not_mix() -> None:
    """Several long ones on the way at the same time."""
    texts = [str(number) * 100_000 for number in range(4)]
    assert [(text, str(number)) for number, text in enumerate(texts)] == [
        (answer["text"], answer["other"]) for answer in echoed(*texts)
    ]


def test_a_command_without_an_answer_carries_long_text_too() -> None:
    """The way chunks go."""
    told: list[str] = []

    def note(text: str) -> dict[str, Any]:
        told.append(text)
        return {}

    client, _, pump = connectedServerAndClient(
        lambda: Pipe({Tell: note}, lambda: None), lambda: Pipe({}, lambda: None)
    )
    assert client.say(Tell, text="🎉" * 100_000) is None
    pump.flush()
    assert told == ["🎉" * 100_000]


def test_a_lost_connection_is_reported_to_the_owner() -> None:
    """Each end once."""
    lost: list[str] = []
    client: Any
    client, _, pump = connectedServerAndClient(
        lambda: Pipe({}, lambda: lost.append("server")),
        lambda: Pipe({}, lambda: lost.append("client")),
    )
    client.transport.abortConnection()
    pump.flush()
    assert sorted(lost) == ["client", "server"]


def test_text_that_is_not_unicode_arrives_escaped() -> None:
    """Such as a file name of another encoding in the text of an error."""
    strings: dict[bytes, bytes] = {}
    LongText().toBox(b"text", strings, {"text": "no file caf\udce9"}, None)
    objects: dict[str, str] = {}
    LongText().fromBox(b"text", strings, objects, None)
    assert objects == {"text": "no file caf\\udce9"}
