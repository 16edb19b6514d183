"""Formats exceptions; the text of a traceback is kept for later failures at the same place."""

from __future__ import annotations

import traceback
from types import CodeType, TracebackType

__all__ = ["exception_line", "exception_text"]

# How many places of failure are remembered: an application fails at few of them, repeatedly.
MOST_PLACES = 200
_Place = tuple[tuple[CodeType, int], ...]
_texts: dict[_Place, str] = {}


def exception_line(error: BaseException) -> str:
    """Return an exception's type and message, without its traceback."""
    return "".join(traceback.format_exception_only(error))


def exception_text(error: BaseException, line: str) -> str:
    """Return the text of `traceback.format_exception`, kept for failures at the same place.

    Args:
        error: The exception.
        line: Its `exception_line`.
    """
    frames = error.__traceback__
    if _is_linked(error):
        return "".join(traceback.format_exception(error))
    return line if frames is None else _formatted(frames) + line


def _is_linked(error: BaseException) -> bool:
    """Tell whether an exception's text also shows other exceptions."""
    if error.__cause__ is not None or isinstance(error, BaseExceptionGroup):
        return True
    return error.__context__ is not None and not error.__suppress_context__


def _place(frames: TracebackType | None) -> _Place:
    place = []
    while frames is not None:
        place.append((frames.tb_frame.f_code, frames.tb_lasti))
        frames = frames.tb_next
    return tuple(place)


def _formatted(frames: TracebackType) -> str:
    place = _place(frames)
    text = _texts.get(place)
    if text is None:
        if len(_texts) >= MOST_PLACES:
            del _texts[next(iter(_texts))]
        text = "Traceback (most recent call last):\n" + "".join(traceback.format_tb(frames))
        # By code, not by frames: those would keep the variables of a handler alive.
        _texts[place] = text
    return text
