"""Steps of a job: what is kept of each, and how its result is read again."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, get_args, get_origin, get_type_hints

from attrs import frozen

from txqueue.errors import InvalidWork
from txqueue.model.foreign import text_of
from txqueue.model.result_json import encode_result
from txqueue.model.storable import distinct, is_storable
from txqueue.model.strict_types import converter

__all__ = [
    "ANY_KIND",
    "LONGEST_NAME",
    "MOST_STEPS",
    "Memo",
    "check_key",
    "check_name",
    "read_result",
    "result_type",
    "seconds_of",
    "signal_json",
    "signal_text",
    "step_text",
]

LONGEST_NAME: Final = 200
"""Characters of the name of a step or a signal."""
MOST_STEPS: Final = 10_000
"""Steps of a job: each run reads them all, and a row of history keeps them all."""
ANY_KIND: Final = ""
"""The kind of a step that a test gives: it fits whatever has its name."""
_LONGEST_KEY: Final = 1000
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_REMEDY_OF_KEPT: Final = (
    "annotate what it returned, rename the step so that it is done again, or run"
    " txqueue retry --from {name!r} with the job's number"
)
_REMEDY_OF_NEW: Final = (
    "repair the annotation or what the function returns, and retry the job: step {name!r} is not"
    " kept, and is done again"
)


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


def check_name(name: object, what: str = "step") -> None:
    """Check the name of a step or a signal.

    Raises:
        InvalidWork: When it is not valid.
    """
    if not isinstance(name, str) or not _is_text(name, LONGEST_NAME):
        raise InvalidWork(
            f"{text_of(name)[:50]!r} is no name of a {what}",
            f"use text of 1 to {LONGEST_NAME} characters",
        )


def check_key(key: object) -> None:
    """Check the key of a signal.

    Raises:
        InvalidWork: When it is not valid.
    """
    if not isinstance(key, str) or not _is_text(key, _LONGEST_KEY):
        raise InvalidWork(
            f"{text_of(key)[:50]!r} is no key of a signal",
            f"use text of 1 to {_LONGEST_KEY:,} characters",
        )


def _is_text(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and is_storable(text)


def seconds_of(length: float | timedelta, what: str) -> float:
    """Return a length of time in seconds.

    Raises:
        InvalidWork: When it is no length of time.
    """
    if isinstance(length, timedelta):
        return length.total_seconds()
    if type(length) in (int, float) and not math.isnan(length):
        return float(length)
    raise InvalidWork(
        f"{what} is {text_of(length)[:50]}",
        "pass seconds, or a timedelta such as timedelta(days=3)",
    )


@lru_cache(maxsize=1000)
def result_type(function: Callable[..., Any]) -> Any:
    """Return the type that a function is annotated to return; Any for none."""
    try:
        hints = get_type_hints(inspect.unwrap(function))
    except Exception:
        return Any
    kind = hints.get("return", Any)
    if get_origin(kind) is None or not isinstance(get_origin(kind), type):
        return kind
    if issubclass(get_origin(kind), Coroutine):
        return get_args(kind)[-1]
    if issubclass(get_origin(kind), Awaitable):
        return get_args(kind)[0]
    return kind


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


def read_result(name: str, kind: Any, text: str | None, *, is_kept: bool = True) -> Any:
    """Return what a step returned.

    Args:
        name: The step.
        kind: The type that its function is annotated to return.
        text: The result as JSON text.
        is_kept: Whether the step was kept, so that it is not done again by itself.

    Raises:
        InvalidWork: When it does not fit the type, which may have changed since.
    """
    value = None if text is None else json.loads(text)
    if kind is Any or (type(value) is kind and kind in _PLAIN):
        return value
    try:
        return converter.structure(value, kind)
    except Exception:
        shown = getattr(kind, "__name__", kind) if not get_args(kind) else kind
        raise InvalidWork(
            f"the result of step {name!r} does not fit its annotation, {shown}",
            (_REMEDY_OF_KEPT if is_kept else _REMEDY_OF_NEW).format(name=name),
        ) from None
