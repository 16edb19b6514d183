"""The fingerprint of an error, as the database computes it: by the replacements in its function, so
that an issue and ``txqueue failures`` name the same kind.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import md5
from typing import Final

from txqueue.store.schema.files import function_text

_LITERAL: Final = r"(?:E?'(?:[^']|'')*')"
_CALL: Final = re.compile(
    rf"regexp_replace\(said, ({_LITERAL}(?:\s*\|\|\s*{_LITERAL})*), ({_LITERAL})(?:, '(\w+)')?\)"
)
_HEAD: Final = re.compile(r"[^\s:]+(?=: |$)")
_FRAME: Final = re.compile(r'([^"]*)", line .*?, in ([^ ]*)')
_BACKSLASH: Final = "\\"
_LONGEST, _FRAMES, _LENGTH = 500, 3, 12
_Replacement = tuple[re.Pattern[str], str, int]


def fingerprint(error: str) -> str:
    """Return the fingerprint of an error's stored text."""
    frames = " ".join(_frames(error))
    text = "\n".join([_kind(error), *[frames] * bool(frames)])
    return md5(text.encode(), usedforsecurity=False).hexdigest()[:_LENGTH]


def _kind(error: str) -> str:
    said = error.split("\n", 1)[0][:_LONGEST]
    found = _HEAD.match(said)
    head = found[0] if found else ""
    if "Traceback (most recent call last):" not in error and f"\n{head}" not in error:
        head = ""
    text = said[len(head) :]
    for pattern, substitute, count in _replacements():
        text = pattern.sub(substitute, text, count=count)
    return head + text


def _frames(error: str) -> list[str]:
    """Return the files and functions of the last frames."""
    lines = [part.split("\n", 1)[0] for part in error.split('File "')[-_FRAMES:]]
    return [
        f"{found[1].replace(_BACKSLASH, '/').rpartition('/')[2]}:{found[2]}"
        for line in lines
        if (found := _FRAME.match(line))
    ]


@lru_cache(maxsize=1)
def _replacements() -> tuple[_Replacement, ...]:
    """Read the replacements in the function ``error_kind``, in their order."""
    return tuple(
        (
            re.compile(_pattern(_unquoted(pattern)), re.IGNORECASE if "i" in flags else 0),
            re.sub(r"\\(\d)", r"\\g<\1>", _unquoted(substitute)),
            0 if "g" in flags else 1,
        )
        for pattern, substitute, flags in _CALL.findall(function_text("failures", "error_kind"))
    )


def _unquoted(literals: str) -> str:
    """Return what literals of SQL, joined by ``||``, stand for."""
    return "".join(
        re.sub(
            r"\\(u[0-9a-f]{4}|.)",
            lambda found: chr(int(found[1][1:], 16)) if len(found[1]) > 1 else found[1],
            literal.removeprefix("E")[1:-1].replace("''", "'"),
        )
        for literal in re.findall(_LITERAL, literals)
    )


def _pattern(text: str) -> str:
    """Return a regular expression of PostgreSQL, with its marks of a word's ends, as Python's."""
    return text.replace(r"\m", r"\b(?=\w)").replace(r"\M", r"\b(?<=\w)")
