"""What a step has returned is read as its function's annotation says."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from attrs import define
from twisted.internet.defer import Deferred

from txqueue.errors import InvalidWork
from txqueue.model.result_json import encode_result
from txqueue.model.step import (
    check_name,
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


@pytest.mark.parametrize("function", [plain, later, awaited, in_twisted, as_coroutine])
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
        read_result("charge", Charge, '{"amount": 7}')
    assert "txqueue retry --from" in it.value.remedy
    with pytest.raises(InvalidWork, match="step 'charge'"):
        step_text("charge", object())


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", 7, None])
def test_a_name_is_text(name: Any) -> None:
    """Anything else is refused before it is sent."""
    with pytest.raises(InvalidWork, match="no name of a step"):
        check_name(name)


def test_lengths_of_time() -> None:
    """Seconds or a timedelta; nothing else."""
    assert seconds_of(timedelta(hours=1), "it") == seconds_of(3600, "it") == 3600.0
    for wrong in ("3 days", None, float("nan"), True):
        with pytest.raises(InvalidWork, match="it is"):
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
