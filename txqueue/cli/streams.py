"""The standard streams of a command, whatever their encoding, open or closed."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys

__all__ = ["discard_output", "prepare_streams"]

_ESCAPE = "txqueue.escape"


def prepare_streams() -> None:
    """Let the output escape characters that its encoding lacks, and replace closed streams."""
    codecs.register_error(_ESCAPE, _escaped)
    # In this order: a file that is opened gets the lowest free number, that of the closed stream.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)


def discard_output() -> None:
    """Write what is left nowhere: the interpreter would report an error at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return characters as JSON escapes them, so that a document stays one."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
