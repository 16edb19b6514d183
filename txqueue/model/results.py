"""Results of handlers and steps as JSON: written within bounds, and read again by their
annotations.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from math import isfinite
from shlex import quote
from types import NoneType, UnionType
from typing import Any, Final, NoReturn, Protocol, Union, get_args, get_origin, get_type_hints

from attrs import frozen
from cattrs import Converter

from txqueue.errors import InvalidWork
from txqueue.model.directives import DIRECTIVES
from txqueue.model.foreign import text_of
from txqueue.model.humanize import brief
from txqueue.model.job_policy import LENGTHS, length_in_seconds
from txqueue.model.storable import CONSTANT, distinct, is_json_already, is_name
from txqueue.model.strict_types import converter, strict_converter

# The encoder of json.dumps() with these options, which it makes for each call.
_result_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


def _refuse_bytes(value: bytes) -> NoReturn:
    raise TypeError(f"JSON has no {type(value).__name__}: make text of them, as by base64")


# Fields of a payload say that they are bytes; a reader of a result would take them for text.
_converter = strict_converter(detailed_validation=False)
_converter.register_unstructure_hook(bytes, _refuse_bytes)
# Python refuses to write much larger integers.
_LARGE = 1 << 64


def encode_result(
    value: Any,
    what: str = "the result",
    remedy: str = "return plain data or an attrs object",
    writer: Converter = _converter,
) -> str:
    """Convert a handler's result into JSON text.

    Args:
        value: The result, or another value.
        what: What an error calls it.
        remedy: What the error advises.
        writer: Makes plain data of it.

    Raises:
        InvalidWork: When the result does not fit JSON.
    """
    try:
        if is_json_already(value):
            return _checked(_result_json(value))
        text = _checked(_result_json(writer.unstructure(value)))
        if "{" in text:
            json.loads(text, object_pairs_hook=distinct)
        return text
    except RecursionError:
        raise InvalidWork(f"{what} is nested too deeply (or contains itself)", remedy) from None
    except BaseException as error:
        text = text_of(error)
        if text.startswith("unhashable type"):
            text = "keys are text, and the members of a set numbers or text"
        raise InvalidWork(f"{what} is not JSON: {text}", remedy) from None


# The most members of a small result, and the most characters of each of its keys and texts: its
# JSON has no more than LONGEST_SMALL bytes.
_MOST_MEMBERS, _LONGEST_MEMBER = 16, 200
LONGEST_SMALL = 1 << 16
"""The most bytes of the JSON text of a result that `small_result` takes."""


def small_result(value: Any) -> Any:
    """Return a copy of a result if it is small, flat and surely fits JSON; None for any other.

    An encoder for each result takes five times as long as its part of a text with all: these are
    encoded together, by `encode_results`. A handler may change its own object until then.
    """
    kind = type(value)
    if kind is dict:
        copy = value.copy()
        return copy if len(copy) <= _MOST_MEMBERS and _are_small(copy) else None
    if kind is list:
        copy = value.copy()
        return copy if len(copy) <= _MOST_MEMBERS and all(map(_is_small, copy)) else None
    return value if _is_small(value) else None


def _are_small(members: dict[Any, Any]) -> bool:
    # A loop: `all` costs as much as the rest for the few members of most results.
    for key, member in members.items():
        if type(key) is not str or not (_is_small(key) and _is_small(member)):
            return False
    return True


def _is_small(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        # No printable text has a NUL character or a lone surrogate.
        return len(value) <= _LONGEST_MEMBER and value.isprintable()
    if kind is int:
        return bool(-_LARGE < value < _LARGE)
    return kind in CONSTANT or (kind is float and isfinite(value))


def encode_results(values: Mapping[str, Any]) -> str:
    """Return the members of a JSON object with values that `small_result` has returned."""
    return _result_json(values)[1:-1]


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _checked(text: str) -> str:
    text.encode()  # This raises for lone surrogates, which PostgreSQL cannot store either.
    if "\\u0000" in text and _NUL.search(text):
        raise ValueError("PostgreSQL cannot store a NUL character")
    return text


def check_length(what: str, text: str, longest: int) -> None:
    """Check the length of a JSON text that a worker reports or stores.

    Args:
        what: What the text is, for the error.
        text: The text.
        longest: The most bytes that it may have.

    Raises:
        InvalidWork: When it is too long.
    """
    # A character takes four bytes at most.
    if 4 * len(text) > longest and (length := len(text.encode())) > longest:
        raise InvalidWork(
            f"the {what} has {length:,} bytes of JSON, more than the {longest:,} of this node",
            "store large data elsewhere and return its key, or raise --result-limit",
        )


LONGEST_NAME: Final = 200
"""Characters of the name of a step or a signal."""
MOST_STEPS: Final = 10_000
"""Steps of a job: each run reads them all, and a row of history keeps them all."""
ANY_KIND: Final = ""
"""The kind of a step that a test gives: it fits whatever has its name."""
_LONGEST_KEY: Final = 1000
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


@frozen
class Memo:
    """A step as an earlier run has left it.

    Attributes:
        name: The name of the step.
        kind: ``step``, ``cursor``, ``sleep``, ``signal`` or ``call``.
        result: What it returned, as JSON text; None for nothing.
        error: Why a wait has no result.
        is_ended: Whether it has ended; a wait may go on.
        seconds: How long until a wait ends by itself; None for no limit.
        child: The job that was enqueued for a call.
        child_state: How that has ended, or its state; None if it is gone.
        child_type: The work type of the child.
        child_result: The result of the child, as JSON text.
        child_error: The error of the child.
    """

    name: str
    kind: str
    result: str | None = None
    error: str | None = None
    is_ended: bool = True
    seconds: float | None = None
    child: int | None = None
    child_state: str | None = None
    child_type: str | None = None
    child_result: str | None = None
    child_error: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the time of a wait is over."""
        return self.seconds is not None and self.seconds <= 0


def check_name(name: object, what: str = "name of a step", longest: int = LONGEST_NAME) -> None:
    """Check the name of a step or a signal, or the key of a signal.

    Args:
        name: The name or key.
        what: What it is.
        longest: How many characters it may have.

    Raises:
        InvalidWork: When it is not valid.
    """
    if not is_name(name, longest):
        raise InvalidWork(
            f"{text_of(name)[:50]!r} is no {what}", f"use text of 1 to {longest:,} characters"
        )


def check_signal_name(name: object, key: object = None) -> None:
    """Check the name of a signal and its key, if it has one.

    Raises:
        InvalidWork: When one is not valid.
    """
    check_name(name, "name of a signal")
    if key is not None:
        check_name(key, "key of a signal", _LONGEST_KEY)


def seconds_of(length: float | timedelta, what: str) -> float:
    """Return a length of time in seconds.

    Raises:
        InvalidWork: When it is no length of time.
    """
    seconds = length_in_seconds(length)
    if seconds is None:
        raise InvalidWork(f"{what} is {brief(length)}", f"pass {LENGTHS}")
    return seconds


@lru_cache(maxsize=1000)
def result_type(function: Callable[..., Any]) -> Any:
    """Return the type of the results of a function, by its annotation; Any for none.

    Directives and None are no part of it: a job that ends by them has no result.
    """
    try:
        hints = get_type_hints(inspect.unwrap(function))
    except Exception:
        return Any
    results = tuple(
        each
        for each in _members(_awaited(hints.get("return", Any)))
        if each is not NoneType and each not in DIRECTIVES
    )
    return Union[results] if results else Any  # noqa: UP007


def _awaited(kind: Any) -> Any:
    """Return the type of what is awaited, of a function that returns an awaitable."""
    origin = get_origin(kind)
    if not isinstance(origin, type):
        return kind
    if issubclass(origin, Coroutine | Generator):
        return get_args(kind)[-1]
    return get_args(kind)[0] if issubclass(origin, Awaitable) else kind


def _members(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union, also of one that has a name; of another type, only that."""
    kind = getattr(kind, "__value__", kind)
    return get_args(kind) if _is_union(kind) else (kind,)


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


class _NotJson(TypeError):
    """A class whose objects JSON does not carry."""


def _reader_of_json(kind: Any) -> Callable[[Any, Any], Any]:
    """Return what reads a type that has no rule: as JSON has it.

    Raises:
        _NotJson: When it is the class of objects that no JSON can be made of. That of a base class
            can be those of another one.
    """
    cls = get_origin(kind) or kind
    if not isinstance(cls, type) or cls is NoneType or Protocol in cls.__bases__:
        return _as_json
    if inspect.isabstract(cls) or cls.__subclasses__():
        return _as_json
    raise _NotJson(cls.__qualname__)


def _as_json(value: Any, _: Any) -> Any:
    return value


def _has_no_rule(kind: Any) -> bool:
    """Tell whether the rules of payloads do not tell the members of a union apart."""
    if not _is_union(kind):
        return False
    try:
        converter.get_structure_hook(kind)
    except Exception:
        return True
    return False


_reader: Final = strict_converter(
    detailed_validation=False, structure_fallback_factory=_reader_of_json
)
_reader.register_structure_hook_factory(_has_no_rule, lambda _: _as_json)


def check_annotation(name: str, kind: Any) -> None:
    """Check the type of a step's results before its function is called.

    Args:
        name: The step.
        kind: The type, as `result_type` returns it.

    Raises:
        InvalidWork: When JSON carries no object of the type.
    """
    try:
        _reader.get_structure_hook(kind)
    except _NotJson as error:
        raise InvalidWork(
            f"step {name!r} is annotated to return {error}, which JSON cannot carry",
            "return plain data or an attrs object, and annotate that; the function was not called",
        ) from None
    except Exception:
        # The annotation tells nothing.
        return


def step_text(name: str, value: Any, kind: Any = Any) -> str:
    """Return a step's result as JSON text.

    Args:
        name: The step.
        value: The result.
        kind: The type that its function is annotated to return.

    Raises:
        InvalidWork: When JSON cannot carry it.
    """
    try:
        return encode_result(value)
    except InvalidWork as error:
        if kind is not Any and (text := _text_of_bytes(name, value, kind)) is not None:
            return text
        raise InvalidWork(f"step {name!r}: {error.what}", error.remedy) from None


def _text_of_bytes(name: str, value: Any, kind: Any) -> str | None:
    """Return the text of a result with bytes if its type reads the same from it."""
    with suppress(Exception):
        text = encode_result(value, writer=converter)
        if read_result(name, kind, text) == value:
            return text
    return None


def signal_text(name: str, value: Any) -> str:
    """Return the value of a signal as JSON text.

    Raises:
        InvalidWork: When JSON cannot carry it.
    """
    what = f"the value of the signal {name!r}"
    return encode_result(value, what, "pass plain data or an attrs object")


def signal_json(name: str, text: str) -> Any:
    """Return the value of a signal that was given as JSON text.

    Raises:
        InvalidWork: When it is no JSON that the database can store.
    """
    try:
        value = json.loads(text, object_pairs_hook=distinct)
    except (json.JSONDecodeError, RecursionError):
        raise InvalidWork(
            f"the value of the signal {name!r} is not JSON",
            'text has quotes of its own, as in "yes"; so have the names in {"approved": true}',
        ) from None
    except ValueError as error:
        what = f"the value of the signal {name!r} is not JSON: {error}"
        raise InvalidWork(what, "pass plain data") from None
    signal_text(name, value)
    return value


_AWAITED: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((float, int), "a number"),
    "str": ((str,), "text in quotes"),
    "list": ((list,), "an array"),
    "dict": ((dict,), "an object"),
    "None": ((NoneType,), "null"),
}
"""What an annotation may begin with, the classes of the JSON values that fit it, and their name."""


def check_signal(name: str, value: Any, annotation: str | None) -> None:
    """Check, as far as it can be seen, that a wait can read the value of a signal.

    Args:
        name: The signal.
        value: Its value, as JSON has it.
        annotation: That of the wait, as `type_text` returns it; None for none.

    Raises:
        InvalidWork: When the value is of another kind.
    """
    text = (annotation or "").removeprefix("typing.")
    if text.startswith("Optional["):
        text = f"{text[len('Optional[') : -1]} | None"
    members = [member.partition("[")[0] for member in text.split(" | ")]
    if not all(member in _AWAITED for member in members):
        return
    if any(type(value) in _AWAITED[member][0] for member in members):
        return
    given = next(what for kinds, what in _AWAITED.values() if type(value) in kinds)
    raise InvalidWork(
        f"the job awaits {annotation} as the signal {name!r}, not {given}: {json.dumps(value):.50}",
        f"nothing was sent; send {' or '.join(_AWAITED[member][1] for member in members)}",
    )


def type_text(kind: Any) -> str:
    """Return a type for people."""
    return str(kind if get_args(kind) else getattr(kind, "__name__", kind))


def read_result(name: str, kind: Any, text: str | None, job_id: int | None = None) -> Any:
    """Return what a step returned; what the type has no rule for, as JSON has it.

    Args:
        name: The step.
        kind: The type of its results, as `result_type` returns it.
        text: The result as JSON text.
        job_id: The number of the job, for the error.

    Raises:
        InvalidWork: When it does not fit the type, which may have changed since.
    """
    value = None if text is None else json.loads(text)
    if kind is Any or (type(value) is kind and kind in _PLAIN):
        return value
    try:
        read = _reader.get_structure_hook(kind)
    except Exception:
        return value
    try:
        return read(value, kind)
    except Exception:
        if value is None:
            return None
        raise InvalidWork(
            f"the result of step {name!r} does not fit its annotation, {type_text(kind)}",
            "it is kept: repair the annotation and retry the job, or rename the step; to repeat it:"
            f" txqueue retry {'ID' if job_id is None else job_id} --from {quote(name)}",
        ) from None
