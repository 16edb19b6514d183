"""What a step has returned is read as its function's annotation says."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from inspect import unwrap
from math import inf, nan
from typing import Annotated, Any, NamedTuple, Protocol, TypedDict, TypeVar, Union

import pytest
from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, inlineCallbacks

from txqueue.errors import InvalidWork
from txqueue.model.directives import Discard, Fail, Next, Snooze
from txqueue.model.results import (
    check_annotation,
    check_name,
    check_signal,
    encode_result,
    read_result,
    result_type,
    seconds_of,
    signal_text,
    step_text,
)


@define
class Charge:
    """A result."""

    number: int


def plain() -> Charge:
    """Return at once."""
    return Charge(1)


async def later() -> Charge:
    """Return later."""
    return Charge(1)


def awaited() -> Awaitable[Charge]:
    """Return an awaitable."""
    return later()


def in_twisted() -> Deferred[Charge]:
    """Return a Deferred."""
    return Deferred.fromCoroutine(later())


def as_coroutine() -> Coroutine[Any, Any, Charge]:
    """Return a coroutine."""
    return later()


def unannotated():  # type: ignore[no-untyped-def]
    """Return anything."""


def misnamed() -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
    """Return what no name says."""


@inlineCallbacks
def in_generator():  # type: ignore[no-untyped-def]
    """Return what callbacks return."""
    yield
    return Charge(1)


unwrap(in_generator).__annotations__["return"] = Generator[Any, Any, Charge]


@pytest.mark.parametrize(
    "function", [plain, later, awaited, in_twisted, as_coroutine, in_generator]
)
def test_a_result_has_the_type_of_its_annotation(function: Any) -> None:
    """Also that of a coroutine, an awaitable and a Deferred."""
    assert result_type(function) is Charge
    assert read_result("charge", Charge, step_text("charge", Charge(7))) == Charge(7)


@pytest.mark.parametrize("function", [unannotated, misnamed, asyncio.sleep])
def test_a_result_without_annotation_is_plain(function: Any) -> None:
    """It is what JSON has; an annotation that names nothing is none."""
    assert read_result("nap", result_type(function), '{"number": 7}') == {"number": 7}


def test_a_result_that_fits_no_more_names_the_step() -> None:
    """The error says what to do."""
    with pytest.raises(InvalidWork, match="does not fit its annotation, Charge") as it:
        read_result("charge", Charge, '{"amount": 7}', 12)
    assert it.value.remedy.endswith("to repeat it: txqueue retry 12 --from charge")
    with pytest.raises(InvalidWork, match="step 'charge'"):
        step_text("charge", object())


@pytest.mark.parametrize(
    ("annotation", "fitting", "others"),
    [
        ("bool", [True, False], [3, "true", None, {}]),
        ("int", [3], [3.0, True, "3"]),
        ("float", [3, 1.5], [True, "3"]),
        ("dict[str, int]", [{"a": "b"}], [[], None]),
        ("list[int] | None", [[1], None], [{}, 1]),
        ("typing.Optional[str]", ["a", None], [1, []]),
        *((text, [3, None, "a", {}], []) for text in (None, "Vote", "int | Vote", "list[a | b]")),
    ],
)
def test_a_signal_that_its_wait_cannot_read(
    annotation: str | None, fitting: Sequence[object], others: Sequence[object]
) -> None:
    """Is refused as far as the annotation tells, with what is awaited, what came and what fits."""
    for value in fitting:
        check_signal("go", value, annotation)
    for value in others:
        with pytest.raises(InvalidWork, match=f"awaits {re.escape(annotation or '')} as .*'go'"):
            check_signal("go", value, annotation)


def test_a_refused_signal_names_both_kinds() -> None:
    """And how to write the right one."""
    with pytest.raises(InvalidWork, match="not a whole number: 3; nothing was sent; send true or"):
        check_signal("go", 3, "bool")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", 7, None])
def test_a_name_is_text(name: Any) -> None:
    """Anything else is refused before it is sent."""
    with pytest.raises(InvalidWork, match="no name of a step"):
        check_name(name)


def test_lengths_of_time() -> None:
    """Seconds or a timedelta, as far as the database can wait; nothing else."""
    assert seconds_of(timedelta(hours=1), "it") == seconds_of(3600, "it") == 3600.0
    for wrong in ("3 days", None, nan, inf, -1, 4e9, 10**400, timedelta(seconds=-1), True):
        with pytest.raises(InvalidWork, match=r"^it is .*0 to 100 years"):
            seconds_of(wrong, "it")  # type: ignore[arg-type]


@define
class Scan:
    """A result that has bytes."""

    page: bytes


@pytest.mark.parametrize(
    "value", [b"x", bytearray(b"x"), memoryview(b"x"), {"raw": [b"x"]}, {b"x": 1}, Scan(b"x")]
)
@pytest.mark.parametrize(
    "encode", [encode_result, partial(step_text, "a"), partial(signal_text, "a")]
)
def test_bytes_are_no_json(encode: Callable[[Any], str], value: object) -> None:
    """A reader would take their base85 for text."""
    with pytest.raises(InvalidWork, match="is not JSON"):
        encode(value)
    assert encode({"ids": (1,), "set": {2}}).replace(" ", "") == '{"ids":[1],"set":[2]}'


@pytest.mark.parametrize(
    ("kind", "value"), [(bytes, b"\x00x"), (Scan, Scan(b"x")), (list[bytes], [b"x", b"y"])]
)
def test_an_annotation_reads_bytes_again(kind: Any, value: object) -> None:
    """Bytes of a step are kept where the annotation of its function says where they are."""
    assert read_result("a", kind, step_text("a", value, kind)) == value
    with pytest.raises(InvalidWork, match="is not JSON"):
        step_text("a", value, object)


def test_an_annotation_that_does_not_tell_of_bytes() -> None:
    """They would be text when read again."""
    with pytest.raises(InvalidWork, match="is not JSON"):
        step_text("a", {"raw": b"x"}, dict)


T = TypeVar("T")
Json = Union[dict[str, "Json"], list["Json"], str, int, float, bool, None]  # noqa: UP007


class Point(NamedTuple):
    """A result with names and places."""

    x: int
    day: date


class Later(NamedTuple):
    """One whose annotations are text, as ``from __future__ import annotations`` leaves them."""

    x: "int"
    day: "date"


class Row(TypedDict):
    """A result with names only."""

    number: int


class Numbered(Protocol):
    """What results have in common."""

    number: int


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=4,
)
_INTS = st.integers(-9, 9)
_KINDS = st.sampled_from(
    [
        *(
            (int, _INTS),
            (str, st.text("ab", max_size=3)),
            (bool, st.booleans()),
            (date, st.dates()),
        ),
        *((object, _JSON), (T, _JSON), (Json, _JSON), (Any, _JSON)),
        (Charge, st.builds(Charge, _INTS)),
        (Point, st.builds(Point, _INTS, st.dates())),
        (Later, st.builds(Later, _INTS, st.dates())),
        (Row, st.fixed_dictionaries({"number": _INTS})),
        (Numbered, st.builds(Charge, _INTS)),
    ]
)
# Typing's own forms, as a type checker takes no variable for a type.
_List: Any = list
_Tuple: Any = tuple
_Dict: Any = dict
_Sequence: Any = Sequence
_Mapping: Any = Mapping
_Union: Any = Union
_Annotated: Any = Annotated
_COMPOSED: list[Callable[[Any, Any], tuple[Any, Any]]] = [
    lambda kind, values: (_List[kind], st.lists(values, max_size=2)),
    lambda kind, values: (_Sequence[kind], st.lists(values, max_size=2)),
    lambda kind, values: (_Tuple[kind, int], st.tuples(values, _INTS)),
    lambda kind, values: (_Dict[str, kind], st.dictionaries(st.text("ab", max_size=2), values)),
    lambda kind, values: (_Mapping[str, kind], st.dictionaries(st.text("ab", max_size=2), values)),
    lambda kind, values: (_Union[kind, None], st.none() | values),
    lambda kind, values: (_Union[kind, Discard, Fail], values),
    lambda kind, values: (_Union[kind, Next, None], st.none() | values),
    lambda kind, values: (_Union[kind, list[int]], values | st.lists(_INTS)),
    lambda kind, values: (_Annotated[kind, "of a result"], values),
]


def _composed(inner: Any) -> Any:
    return st.builds(lambda how, of: how(*of), st.sampled_from(_COMPOSED), inner)


@st.composite
def results(draw: Any) -> tuple[Any, Any]:
    """Draw an annotation, and a value that a function with it can return."""
    kind, values = draw(st.recursive(_KINDS, _composed, max_leaves=3))
    return kind, draw(values)


@settings(max_examples=300, deadline=None)
@given(results())
def test_a_result_of_any_annotation_is_read(result: tuple[Any, Any]) -> None:
    """What has no rule, as JSON has it: to write it again makes the same text."""
    annotation, value = result

    def function() -> None: ...

    function.__annotations__["return"] = annotation
    kind = result_type(function)
    check_annotation("a", kind)
    text = step_text("a", value, kind)
    assert step_text("a", read_result("a", kind, text), kind) == text
    assert read_result("a", kind, None) is None


@pytest.mark.parametrize("annotation", [Discard, Next | Snooze | None, None, Fail])
def test_an_annotation_of_no_result_tells_nothing(annotation: Any) -> None:
    """A job that ends by a directive has the result of its last stage, or none."""

    def function() -> None: ...

    function.__annotations__["return"] = annotation
    assert result_type(function) is Any


@pytest.mark.parametrize("kind", [complex, range, dict[str, complex], type("Response", (), {})])
def test_an_annotation_that_no_json_fits(kind: Any) -> None:
    """It is refused before the function is called; the result of a call is read all the same."""
    with pytest.raises(InvalidWork, match="step 'a' is annotated to return"):
        check_annotation("a", kind)
    assert read_result("a", kind, '{"b": 1}') == {"b": 1}
