"""Objects of an application that raise in their methods, or lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

NAMES = [
    "__bool__",
    "__len__",
    "__eq__",
    "__hash__",
    "__str__",
    "__repr__",
    "__format__",
    "__reduce__",
    "__reduce_ex__",
    "__iter__",
    "__getattr__",
    "__getattribute__",
    "__instancecheck__",
]
PROPERTIES = [
    "__class__",
    "__traceback__",
    "__cause__",
    "__context__",
    "__suppress_context__",
    "__notes__",
    "args",
    "delay",
    "reason",
]


class Unruly(BaseException):
    """Raised by objects of an application; it is itself as bad as they are."""

    def __str__(self) -> str:
        raise Unruly

    def __bool__(self) -> bool:
        raise Unruly


def _exit(*_: object, **__: object) -> Any:
    raise SystemExit("no more")


def _recur(*_: object, **__: object) -> Any:
    return _recur()


def _unruly(*_: object, **__: object) -> Any:
    raise Unruly


def _fail(*_: object, **__: object) -> Any:
    raise ValueError("\0\ud800")


def _nonsense(*_: object, **__: object) -> Any:
    return object()


ACTS: list[Callable[..., Any]] = [_exit, _recur, _unruly, _fail, _nonsense]


@st.composite
def hostile_classes(draw: st.DrawFn, *bases: type) -> type:
    """Make subclasses of one of the given classes, with some methods and properties that harm."""
    base = draw(st.sampled_from(bases))
    methods = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ACTS), max_size=4))
    properties = draw(
        st.dictionaries(st.sampled_from(PROPERTIES), st.sampled_from(ACTS), max_size=3)
    )
    body = {**methods, **{name: property(act, _nonsense) for name, act in properties.items()}}
    if "__eq__" in body and "__hash__" not in body:
        body["__hash__"] = base.__hash__
    return type("Odd", (base,), body)
