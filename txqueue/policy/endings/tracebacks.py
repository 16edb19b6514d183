"""Formats exceptions; the text of a traceback is kept for later failures at the same place.

A handler's traceback begins with the handler, not with the worker's own frames that have called it.

Python's own formatter calls methods of the exceptions, so it gets only those that behave. For
others the text is made of what the interpreter itself keeps.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final, cast

from txqueue.model.foreign import ByClass, is_a, looked, path_of, text_of

# The interpreter's own attributes: a class cannot replace them by properties of its own.
_TRACEBACK: Final[Callable[[object], TracebackType | None]] = vars(BaseException)[
    "__traceback__"
].__get__
_CAUSE: Final[Callable[[object], Any]] = vars(BaseException)["__cause__"].__get__
_CONTEXT: Final[Callable[[object], Any]] = vars(BaseException)["__context__"].__get__
_IS_SUPPRESSED: Final[Callable[[object], Any]] = vars(BaseException)["__suppress_context__"].__get__
_GROUPED: Final[Callable[[object], Any]] = vars(BaseExceptionGroup)["exceptions"].__get__
_CLASS_LOOK: Final = type.__getattribute__
_OWN: Final = [
    (name, _CLASS_LOOK(BaseException, name))
    for name in (
        "__getattribute__",
        "__traceback__",
        "__cause__",
        "__context__",
        "__suppress_context__",
    )
]

# How many places of failure are remembered: an application fails at few of them, repeatedly.
MOST_PLACES = 200
# The longest chain of causes that is shown, and the most exceptions that Python's formatter gets.
LONGEST_CHAIN, MOST_LINKED = 10, 200
# Characters of the text that is kept of an exception, and of its message at least.
LONGEST_TRACEBACK: Final = 8000
LEAST_MESSAGE: Final = 2000
CUT: Final = " [...] "
# Of these Python shows more than the message: a line of code, or a name that may be meant.
_WITH_MORE: Final = (SyntaxError, NameError, AttributeError, ImportError)
_CAUSED: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"
# The files of the worker whose frames lead to a handler.
_WORKER: Final = Path(__file__).parents[2] / "worker"
_CALLERS: Final = (f"{_WORKER / 'handlers' / '_'}"[:-1], f"{_WORKER / 'running' / 'performer.py'}")
_Place = tuple[int, ...]
# With the code whose numbers are in the place: no other code has them as long as it is kept. The
# hash of code takes longer than all else. By code, not by frames: those would keep the variables of
# a handler alive.
_texts: dict[_Place, tuple[str, list[CodeType]]] = {}


def exception_text(error: object) -> tuple[str, str]:
    """Return an exception's line, and the text of `traceback.format_exception`.

    The text of the frames is kept for later failures at the same place.
    """
    line, frames, whole = exception_parts(error)
    return line, whole or frames + line


def syntax_error(error: object) -> str | None:
    """Return the type and message of a SyntaxError, whose line begins with its file."""
    return _plain_line(error).strip() if is_a(error, SyntaxError) else None


def shortened(text: str, line: str) -> str:
    """Return an exception's text with its last frames, and with the begin and end of its message.

    Args:
        text: The text, which ends with the line.
        line: The exception's line.
    """
    if len(text) <= LONGEST_TRACEBACK:
        return text
    before = text.removesuffix(line)
    room = max(LONGEST_TRACEBACK - len(before), LEAST_MESSAGE) - len(CUT)
    if before != text and len(line) > room:
        text = f"{before}{line[: room // 2]}{CUT}{line[-(room // 2) :]}"
    return text if len(text) <= LONGEST_TRACEBACK else f"[...] {text[-LONGEST_TRACEBACK:]}"


def exception_parts(error: object) -> tuple[str, str, str]:
    """Return an exception's line, the text of its frames, and an empty text.

    For an exception that is linked with others, the frames are empty, and the text is the whole of
    `traceback.format_exception`.
    """
    frames = _without_callers(traceback_of(error))
    if _IS_PLAIN.of(error) and link_of(error)[0] is None and not _has_notes(error):
        return _plain_line(error), _formatted(frames), ""
    is_linked = _is_linked(error)
    line = _line(error, is_linked=is_linked)
    if not is_linked:
        return line, _formatted(frames), ""
    whole = ""
    if _all_behave(error, is_linked=True):
        made = cast("Any", error)
        whole = looked(lambda: "".join(traceback.format_exception(type(made), made, frames)), "")
    return line, "", whole or _chain_text(error)


def _line(error: Any, *, is_linked: bool) -> str:
    has_more = is_a(error, *_WITH_MORE) or _has_notes(error)
    if not (has_more and _all_behave(error, is_linked=is_linked)):
        return _plain_line(error)
    return looked(lambda: "".join(traceback.format_exception_only(error)), "") or _plain_line(error)


# Whether the text of an exception of a class without notes is no more than its message.
_IS_PLAIN: Final = ByClass(lambda cls: not issubclass(cls, (*_WITH_MORE, BaseExceptionGroup)))


def _has_notes(error: object) -> bool:
    try:
        return hasattr(error, "__notes__")
    except BaseException:
        return False


def _plain_line(error: object) -> str:
    """Return an exception's type and message as the interpreter keeps them."""
    name = _SHOWN_PATHS.of(error)
    text = text_of(error)
    return f"{name}: {text}\n" if text else f"{name}\n"


_SHOWN_PATHS: Final = ByClass(
    lambda cls: path_of(cls).removeprefix("builtins.").removeprefix("__main__.")
)


def _chain_text(error: object) -> str:
    """Return the text of an exception and of those before it, the last ones of a long chain."""
    parts: list[str] = []
    ids: set[int] = set()
    this: object = error
    words = ""
    while this is not None and id(this) not in ids and len(ids) < LONGEST_CHAIN:
        ids.add(id(this))
        parts += [words, _plain_line(this), _formatted(_without_callers(traceback_of(this)))]
        this, is_cause = link_of(this)
        words = _CAUSED if is_cause else _DURING
    return "".join(reversed(parts))


def _is_linked(error: object) -> bool:
    """Tell whether an exception's text also shows other exceptions."""
    return link_of(error)[0] is not None or is_a(error, BaseExceptionGroup)


def _all_behave(error: object, *, is_linked: bool) -> bool:
    """Tell whether Python's formatter can be given an exception, and all that it shows with it."""
    if not is_linked:
        return behaves(error)
    errors = list(islice(_linked(error), MOST_LINKED + 1))
    return len(errors) <= MOST_LINKED and all(map(behaves, errors))


def _linked(error: object) -> Iterator[object]:
    """Yield an exception and all those that it is linked with or consists of."""
    ids: set[int] = set()
    left = [error]
    while left:
        this = left.pop()
        if id(this) not in ids:
            ids.add(id(this))
            yield this
            left += members_of(this)


def _without_callers(frames: TracebackType | None) -> TracebackType | None:
    """Leave out the first frames, which have called the handler; no frame if no other is left."""
    inner = frames
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_CALLERS):
        inner = inner.tb_next
    return inner or frames


def _formatted(frames: TracebackType | None) -> str:
    if frames is None:
        return ""
    place = _place(frames)
    known = _texts.get(place)
    if known is None:
        if len(_texts) >= MOST_PLACES:
            del _texts[next(iter(_texts))]
        known = _texts[place] = (
            _shown(frames),
            [each.f_code for each, _ in traceback.walk_tb(frames)],
        )
    return known[0]


def _place(frames: TracebackType | None) -> _Place:
    """Return where an exception was raised."""
    place: list[int] = []
    while frames is not None:
        place += (id(frames.tb_frame.f_code), frames.tb_lasti)
        frames = frames.tb_next
    return tuple(place)


def _shown(frames: TracebackType) -> str:
    # The loader of a module, which has its lines, is the application's too.
    lines = looked(lambda: "".join(traceback.format_tb(frames)), "  (no frame can be shown)\n")
    return f"Traceback (most recent call last):\n{lines}"


def traceback_of(error: object) -> TracebackType | None:
    """Return where an exception was raised; None for one that was not, or is none."""
    try:
        return _TRACEBACK(error)
    except TypeError:
        return None


def link_of(error: object) -> tuple[BaseException | None, bool]:
    """Return the exception that a traceback shows before this one, and whether it is the cause."""
    try:
        cause = _CAUSE(error)
    except TypeError:
        return None, True
    if cause is not None or _IS_SUPPRESSED(error):
        return cause, True
    return _CONTEXT(error), False


def members_of(error: object) -> list[BaseException]:
    """Return all exceptions that a traceback of this one may show: causes, and those of a group."""
    if not is_a(error, BaseException):
        return []
    members = [_CAUSE(error), _CONTEXT(error)]
    if is_a(error, BaseExceptionGroup):
        members += _GROUPED(error)
    return [member for member in members if member is not None]


def behaves(error: object) -> bool:
    """Tell whether an exception has its attributes as the interpreter keeps them."""
    cls = type(error)
    try:
        return not [name for name, attribute in _OWN if _CLASS_LOOK(cls, name) is not attribute]
    except BaseException:
        return False
