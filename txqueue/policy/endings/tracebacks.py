"""Formats exceptions; the text of a traceback is kept for later failures at the same place.

A handler's traceback begins with the handler, not with the worker's own frames that have called it.

Python's own formatter calls methods of the exceptions. Where one of these raises, the text is made
of the exception's class, its message and its frames.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, TracebackType
from typing import Final, cast

from txqueue.model.foreign import is_a, looked, path_of, text_of

# The interpreter's own attribute: a class cannot replace it by a property of its own.
_TRACEBACK: Final[Callable[[object], TracebackType | None]] = vars(BaseException)[
    "__traceback__"
].__get__

# How many places of failure are remembered: an application fails at few of them, repeatedly.
MOST_PLACES = 200
# Characters of the text that is kept of an exception, and of its message at least.
LONGEST_TRACEBACK: Final = 8000
LEAST_MESSAGE: Final = 2000
CUT: Final = " [...] "
# Of these Python shows more than the message: a line of code, or a name that may be meant.
_WITH_MORE: Final = (SyntaxError, NameError, AttributeError, ImportError)
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
    try:
        made = cast("BaseException", error)
        if not _is_linked(made):
            return _line(made), _formatted(frames), ""
        return _line(made), "", "".join(traceback.format_exception(type(made), made, frames))
    except BaseException:
        return _plain_line(error), _formatted(frames), ""


def _is_linked(error: BaseException) -> bool:
    """Tell whether an exception's text also shows other exceptions."""
    if error.__cause__ is not None or is_a(error, BaseExceptionGroup):
        return True
    return error.__context__ is not None and not error.__suppress_context__


def _line(error: BaseException) -> str:
    if is_a(error, *_WITH_MORE) or hasattr(error, "__notes__"):
        return "".join(traceback.format_exception_only(error))
    return _plain_line(error)


def _plain_line(error: object) -> str:
    """Return an exception's type and message."""
    name = path_of(error).removeprefix("builtins.").removeprefix("__main__.")
    text = text_of(error)
    return f"{name}: {text}\n" if text else f"{name}\n"


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
