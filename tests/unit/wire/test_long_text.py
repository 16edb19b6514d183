"""Text of any length through AMP."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.test.iosim import connectedServerAndClient

from txqueue.wire.commands import LongText
from txqueue.wire.pipe import Pipe

PART = 65_000


def carried(text: str) -> str:
    """Write a text into a box beside another one, and read it."""
    box: dict[bytes, bytes] = {b"texts": b"x" * PART}
    LongText().toBox(b"text", box, {"text": text}, None)
    assert max(map(len, box.values())) <= PART
    read: dict[str, str] = {}
    LongText().fromBox(b"text", box, read, None)
    return read["text"]


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.integers(0, 300_000),
)
@example("x", 0)
@example("x", PART - 1)
@example("x", PART)
@example("x", PART + 1)
@example("x", 2 * PART)
def test_any_text_comes_back(pattern: str, length: int) -> None:
    """Whatever its length, and wherever its characters of several bytes fall."""
    text = (pattern * (length // len(pattern) + 1))[:length]
    assert carried(text) == text


def test_text_that_is_not_unicode_arrives_escaped() -> None:
    """Such as a file name of another encoding in the text of an error."""
    assert carried("no file caf\udce9") == "no file caf\\udce9"


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
