"""Between work items and JSON: strict both ways, and silent about values."""

import json
from typing import Any

import attrs
import pytest
from attrs import define, field, validators
from hypothesis import given
from hypothesis import strategies as st

from txqueue import WorkItem
from txqueue.errors import InvalidWork
from txqueue.model.payload import decode, encode
from txqueue.model.results import LONGEST_SMALL, encode_result, encode_results, small_result

SECRET = "s3cret-value"


@define
class Address:
    """Data inside a work item."""

    street: str
    lines: list[str] = field(factory=list)


def _not_negative(_: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if value < 0:
        raise ValueError(f"{attribute.name} must not be {value}")


@define
class Checked(WorkItem):
    """A field with a validator, whose error shows the value."""

    number: int = field(validator=_not_negative)

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Login(WorkItem):
    """What must not be shown in an error."""

    user: int
    password: str

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Required(WorkItem):
    """A class without defaults."""

    one: int
    two: int

    async def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize("payload", [None, 7, "text", [], [1]], ids=str)
def test_a_payload_that_is_no_object_is_refused(payload: object) -> None:
    """JSON alone is not enough."""
    with pytest.raises(InvalidWork, match="an object with its fields"):
        decode(Login, payload)


def test_extra_fields_are_refused_whether_or_not_some_are_missing() -> None:
    """Also in a class without defaults, whose fields are counted first."""
    decode(Required, {"one": 1, "two": 2})
    for payload in ({"one": 1, "tow": 2}, {"one": 1, "two": 2, "three": 3}, {"one": 1}, "12"):
        with pytest.raises(InvalidWork):
            decode(Required, payload)


def test_what_a_validator_says_of_a_value_is_not_shown() -> None:
    """An error of the class's own validator may hold the value; ours does not."""
    with pytest.raises(InvalidWork) as caught:
        decode(Checked, {"number": -98765})
    assert "98765" not in str(caught.value)


@pytest.mark.parametrize("thing", [SECRET, 7, None, Login, {"user": 7}], ids=type)
def test_what_is_no_work_item_is_refused(thing: Any) -> None:
    """Anything else than an instance of a work item class; the error does not show it."""
    with pytest.raises(InvalidWork, match="is not a work item") as caught:
        encode(thing)
    assert SECRET not in str(caught.value)


def test_a_class_without_fields_is_refused() -> None:
    """The remedy is to decorate it."""

    class Plain(WorkItem):
        pass

        def perform(self, job: Any) -> None:
            """Do nothing."""

    with pytest.raises(InvalidWork, match=r"has no fields; .*attrs\.define"):
        encode(Plain())


def test_a_field_that_json_cannot_carry_is_refused() -> None:
    """The error says which type, and which there are instead."""

    @define
    class Callback(WorkItem):
        function: complex

        def perform(self, job: Any) -> None:
            """Do nothing."""

    with pytest.raises(InvalidWork, match=r"complex.*; (declare plain data|pass values)"):
        encode(Callback(complex(1)))


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), ({"a": [1]}, '{"a": [1]}'), (Address("x"), '{"street": "x", "lines": []}')],
)
def test_a_result_is_plain_data_or_attrs(value: object, text: str) -> None:
    """What handlers return is stored as JSON."""
    assert text == encode_result(value)


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value",
    [
        *(object(), float("nan"), float("inf"), "a\0b", ["\0"], "\ud800", {(1, 2): 3}),
        *({"1": 2, 1: 3}, [{"a": {None: 1, "null": 2}}]),
    ],
    ids=[
        *("object", "nan", "inf", "nul", "nul in list", "surrogate", "tuple as key"),
        *("two keys of one text", "two keys of one text inside"),
    ],
)
def test_a_result_that_cannot_be_stored_is_refused(value: object) -> None:
    """JSON cannot carry it, or PostgreSQL cannot store it."""
    with pytest.raises(InvalidWork, match=r"the result is not JSON: .*; return plain data"):
        encode_result(value)


@pytest.mark.parametrize(
    ("value", "why"), [(_loop(), "nested too deeply"), ({(1, 2): 3}, "keys are text")]
)
def test_a_refused_result_is_told_in_terms_of_data(value: object, why: str) -> None:
    """Not as Python's encoder came upon it."""
    with pytest.raises(InvalidWork, match=why):
        encode_result(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
        lambda each: st.lists(each) | st.dictionaries(st.text(max_size=300) | st.integers(), each),
    )
)
def test_a_small_result_is_encoded_with_others_as_by_itself(value: object) -> None:
    """Only one that can be stored is small, and the handler's own object is not kept."""
    small = small_result(value)
    if small is None:
        return
    text = f"{{{encode_results({'7': small})}}}"
    assert text == f'{{"7": {encode_result(value)}}}'
    assert len(text.encode()) <= LONGEST_SMALL
    assert small is not value or not isinstance(value, dict | list)


@pytest.mark.parametrize(
    ("value", "is_small"),
    [
        *((7, True), ("t", True), ({"a": 1.5, "b": None}, True), ([1, "x"], True), ({}, True)),
        *((None, False), ({"a": [1]}, False), ({1: 2}, False), ([{}], False), ("x" * 201, False)),
        *((2**64, False), (float("nan"), False), ("a\0b", False), ("\ud800", False)),
        *(({"\0": 1}, False), ([0] * 17, False), (True, True), ((1,), False)),
    ],
)
def test_few_flat_members_are_a_small_result(value: object, is_small: bool) -> None:
    """Any other result is looked at as a whole."""
    assert (small_result(value) is not None) == is_small


def test_a_result_may_look_like_an_escape() -> None:
    """Six characters that spell a NUL are no NUL."""
    assert json.loads(encode_result("\\u0000")) == "\\u0000"


@define
class Secret(WorkItem):
    """Data that must not appear in an error."""

    redacted = True

    number: int = field(default=0, validator=validators.in_([0]))
    names: dict[str, int] = field(factory=dict)

    def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"number": "s3cr3t"}, "invalid value for type, expected int @ $.number"),
        ({"number": 53237}, "invalid value for type"),
        ({"names": {"s3cr3t": "x"}}, "invalid value for type, expected int @ $.names[...]"),
        ({"s3cr3t": 1}, "extra fields found @ $"),
    ],
)
def test_an_error_of_a_redacted_type_shows_no_value_and_no_key(payload: object, said: str) -> None:
    """What a validator says, keys of mappings and fields that are too many are data."""
    with pytest.raises(InvalidWork) as error:
        decode(Secret, payload)
    assert said in str(error.value)
    assert "s3cr3t" not in str(error.value)
    assert "53237" not in str(error.value)
