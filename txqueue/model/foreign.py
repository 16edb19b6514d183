"""Guarded looks at objects of the application: exceptions, results, hooks, logged values.

Any method of such an object may raise anything, a `SystemExit` too, or lie about the object's
class. A worker looks at them through this module only, and at exceptions through
`txqueue.policy.endings.tracebacks`, so that no object of one job can end the process, lose the end
of its job, or harm another job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# The interpreter's own attributes: a class cannot replace them by properties of its own.
_ORDER: Final = type.__dict__["__mro__"].__get__
_NAME: Final = type.__dict__["__name__"].__get__
_PATH: Final = type.__dict__["__qualname__"].__get__
_MODULE: Final = type.__dict__["__module__"].__get__

LONGEST_PATH: Final = 200
MOST_CLASSES: Final = 500
"""How many classes `ByClass` remembers: an application has few classes of errors."""


class ByClass(Generic[T]):
    """What was found out about classes, to be found out once.

    Args:
        find: Finds it out; must not raise.
    """

    def __init__(self, find: Callable[[type], T]) -> None:
        self._find = find
        # By number, as a metaclass may define what == and hash() do. As the class is kept, no other
        # has its number.
        self._known: dict[int, tuple[type, T]] = {}

    def of(self, value: object) -> T:
        """Return it for the real class of an object."""
        cls = type(value)
        known = self._known.get(id(cls))
        if known is None:
            if len(self._known) >= MOST_CLASSES:
                self._known.clear()
            known = self._known[id(cls)] = cls, self._find(cls)
        return known[1]

    def __len__(self) -> int:
        """Return how many classes are remembered."""
        return len(self._known)


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
    return _NAMES.of(value)


def name_of(cls: type) -> str:
    """Return the name of a class."""
    return _exact(_NAME(cls))


_NAMES: Final = ByClass(name_of)


def path_of(cls: type) -> str:
    """Return the module and name of a class, such as ``builtins.ValueError``."""
    try:
        module = _MODULE(cls)
    except BaseException:
        module = "?"
    return f"{text_of(module)}.{_exact(_PATH(cls))}"[:LONGEST_PATH]


def text_of(value: object) -> str:
    """Return the text of any value: one of an application's may fail to have one."""
    try:
        return _exact(str(value))
    except BaseException:
        return f"a {class_name(value)} that has no text"


def _exact(text: str) -> str:
    """Return a text as a plain `str`: one of a subclass may have methods of its own."""
    return str.__str__(text)
