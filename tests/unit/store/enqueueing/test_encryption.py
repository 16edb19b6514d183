"""Payloads that are encrypted at rest: only a key opens them, and only as what they were."""

from typing import Any

import pytest
from attrs import define
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from txqueue.errors import ConfigurationError, InvalidWork, KeyUnavailable
from txqueue.model.payload import decode, encode
from txqueue.model.work_item import WorkItem
from txqueue.policy.endings.outcome import KEYLESS_PAUSE, judge
from txqueue.store.enqueueing.calls import batches, enqueue_call, job_object
from txqueue.store.enqueueing.encryption import (
    KEY,
    check_key,
    decrypted,
    decrypted_result,
    encrypted,
    has_key,
)

CANARY = "s3cr3t-4111111111111111"


@define
class Card(WorkItem):
    """Work with secret fields."""

    work_type = "sealing.card"
    encrypted = True

    number: str
    amount: int = 0

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Shy(WorkItem):
    """Work that is only kept out of sight."""

    work_type = "sealing.shy"
    redacted = True

    number: str

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Shyer(Shy):
    """One that inherits that."""

    work_type = "sealing.shyer"

    more: str = CANARY


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A key, in the environment."""
    made = Fernet.generate_key().decode()
    monkeypatch.setenv(KEY, made)
    return made


@given(value=JSON)
def test_what_was_sealed_is_opened(key: str, value: Any) -> None:
    """Whatever JSON can carry, and no two are alike."""
    first, second = (encrypted("a.type", "payload", value) for _ in range(2))
    assert decrypted("a.type", "payload", first) == value
    assert first != second
    assert key not in str(first)


@given(number=st.text(st.characters(exclude_categories=["Cs"])), amount=st.integers())
@pytest.mark.usefixtures("key")
def test_a_work_item_comes_back(number: str, amount: int) -> None:
    """By whichever way it is enqueued."""
    card = Card(number, amount)
    job = job_object(card)
    assert decode(Card, decrypted(Card.work_type, "payload", job["payload"])) == card
    assert job.keys() == {"work_type", "payload", "options"}


@pytest.mark.usefixtures("key")
def test_nothing_of_it_is_in_what_is_stored() -> None:
    """Neither one at a time nor in bulk, nor in what shows of the item itself."""
    card = Card(CANARY, 7)
    said = [str(enqueue_call("txqueue", card, {})), *batches([card], {}), repr(card), str(card)]
    assert not [text for text in said if CANARY in text]
    assert repr(card) == "Card(redacted)"


def test_redacted_fields_do_not_show() -> None:
    """A subclass inherits that; the stored payload is unchanged, with a mark for readers."""
    assert [repr(Shy(CANARY)), repr(Shyer("1"))] == ["Shy(redacted)", "Shyer(redacted)"]
    job = job_object(Shy("7"), {"timeout": 5})
    assert job["payload"] == {"number": "7"}
    assert job["options"] == {"timeout": 5, "redacted": True}


def test_keys_rotate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first encrypts; all decrypt, so the old one stays until its jobs are gone."""
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    monkeypatch.setenv(KEY, old)
    before = encrypted("a.type", "payload", 1)
    monkeypatch.setenv(KEY, f"{new}, {old}")
    after = encrypted("a.type", "payload", 2)
    assert [decrypted("a.type", "payload", each) for each in (before, after)] == [1, 2]
    monkeypatch.setenv(KEY, new)
    assert decrypted("a.type", "payload", after) == 2
    with pytest.raises(KeyUnavailable, match="no key of this process decrypts the payload"):
        decrypted("a.type", "payload", before)


@pytest.mark.usefixtures("key")
def test_nothing_stands_in_for_another() -> None:
    """Not another type's payload, nor a result, nor a forged or changed token."""
    foreign, result = encrypted("other.type", "payload", {}), encrypted("a.type", "result", {})
    for wrong in (foreign, result, {}, {"number": "1"}, {**foreign, "more": 1}, "x", None):
        with pytest.raises(InvalidWork):
            decrypted("a.type", "payload", wrong)
    token = encrypted("a.type", "payload", {})["encrypted"]
    # A key that only other nodes have may decrypt these.
    for forged in (token[:-4] + "AAA=", Fernet(Fernet.generate_key()).encrypt(b"[]").decode()):
        with pytest.raises(KeyUnavailable):
            decrypted("a.type", "payload", {"encrypted": forged})


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("text", ["", "ü", "garbage", "gAAAAA==", "A" * 100, "A" * 99])
def test_what_no_key_can_decrypt_is_refused_for_good(text: str) -> None:
    """A text that is no token fails its job; it would be postponed without limit."""
    with pytest.raises(InvalidWork, match="in no form that encryption makes") as refused:
        decrypted("a.type", "payload", {"encrypted": text})
    verdict = judge(refused.value, Card.retry, 0, 0.5)
    assert verdict.outcome == "failed"


def test_without_a_key_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes before the statement and says what to do, and not what the fields are."""
    monkeypatch.delenv(KEY, raising=False)
    assert not has_key()
    check_key()
    with pytest.raises(KeyUnavailable, match=f"{KEY} is not set; set {KEY}") as caught:
        enqueue_call("txqueue", Card(CANARY), {})
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("text", ["short", ",", "not base64!", "A" * 44])
def test_a_key_that_is_none_is_refused_without_showing_it(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a node's start, before anything else."""
    monkeypatch.setenv(KEY, text)
    with pytest.raises(ConfigurationError) as caught:
        check_key()
    assert text == "," or text not in str(caught.value)


def test_a_job_that_no_key_opens_waits() -> None:
    """It spends no attempt: perhaps another node has the key."""
    verdict = judge(KeyUnavailable("no key of this process", "set one"), Card.retry, 4, 0.5)
    assert (verdict.outcome, verdict.delay) == ("snooze", KEYLESS_PAUSE)


@pytest.mark.usefixtures("key")
def test_results_are_decrypted_where_the_type_is_defined() -> None:
    """Others get what is stored."""
    result = encrypted(Card.work_type, "result", {"paid": True})
    assert decrypted_result(Card.work_type, result) == {"paid": True}
    assert decrypted_result("unknown.type", result) == result
    assert decrypted_result(Shy.work_type, {"encrypted": "x"}) == {"encrypted": "x"}
    assert decrypted_result(Card.work_type, None) is None


@pytest.mark.parametrize("amount", ["many", None, 1.5, CANARY])
def test_an_error_of_a_field_does_not_show_it(amount: Any) -> None:
    """Nor any other field."""
    with pytest.raises(InvalidWork) as caught:
        encode(Card(CANARY, amount))
    assert CANARY not in str(caught.value)
    with pytest.raises(InvalidWork) as caught:
        decode(Card, {"number": [CANARY], CANARY[:3]: CANARY})
    assert CANARY not in str(caught.value)
