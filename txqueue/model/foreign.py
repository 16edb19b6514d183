"""Guarded looks at objects of the application: exceptions, results, hooks, logged values.

Any method of such an object may raise anything, a `SystemExit` too. A worker looks at them through
this module, and at exceptions through `txqueue.policy.endings.tracebacks`, so that no object of one
job can end the process, lose the end of its job, or harm another job.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

T = TypeVar("T")

# The interpreter's own attribute: a class cannot replace it by a property of its own.
_ORDER: Final = type.__dict__["__mro__"].__get__
LONGEST_PATH: Final = 200
MOST_CLASSES: Final = 500
"""The paths of how many classes are remembered: an application has few classes of errors."""


def looked(look: Callable[[], T], otherwise: T) -> T:
    """Return what a look at an object of the application returns, or another value if it raises."""
    try:
        return look()
    except BaseException:
        return otherwise


def is_a(value: object, *kinds: type) -> bool:
    """Tell whether the real class of an object is one of the given ones or derives from it.

    Args:
        value: The object, whose own `__class__` may be wrong.
        kinds: Classes without a metaclass: one may ask the object's metaclass.
    """
    return issubclass(type(value), kinds)


def derives_from(value: object, kind: type) -> bool:
    """Tell the same of one class, which may have a metaclass."""
    # By identity: the object's metaclass may define what == and hash() do.
    return any(cls is kind for cls in _ORDER(type(value)))


def class_name(value: object) -> str:
    """Return the name of an object's class."""
    return type(value).__name__


def path_of(value: object) -> str:
    """Return the module and name of an object's class, such as ``builtins.ValueError``."""
    cls: Any = type(value)
    return _path(cls)


@lru_cache(MOST_CLASSES)
def _path(cls: type) -> str:
    return f"{text_of(cls.__module__)}.{cls.__qualname__}"[:LONGEST_PATH]


def text_of(value: object) -> str:
    """Return the text of any value: one of an application's may fail to have one."""
    try:
        # A plain one: that of a subclass may have methods of its own.
        return str.__str__(str(value))
    except BaseException:
        return f"a {class_name(value)} that has no text"
