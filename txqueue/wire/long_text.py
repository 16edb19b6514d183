"""Text of any length as an AMP argument: AMP's own end at 65,535 bytes."""

from __future__ import annotations

from typing import Any

from twisted.protocols import amp

__all__ = ["LongText"]

_PART = 65_000


class LongText(amp.Argument):
    """Unicode text, carried as as many values of a box as it takes."""

    def toBox(self, name: bytes, strings: Any, objects: Any, proto: Any) -> None:  # noqa: ARG002 - amp's
        """Put the text into the box in parts."""
        data = objects[name.decode()].encode()
        strings[name] = data[:_PART]
        for number, start in enumerate(range(_PART, len(data), _PART), 1):
            strings[b"%s.%d" % (name, number)] = data[start : start + _PART]

    def fromBox(self, name: bytes, strings: Any, objects: Any, proto: Any) -> None:  # noqa: ARG002 - amp's
        """Join the parts of the text."""
        parts = [strings[name]]
        while (part := strings.get(b"%s.%d" % (name, len(parts)))) is not None:
            parts.append(part)
        objects[name.decode()] = b"".join(parts).decode()
