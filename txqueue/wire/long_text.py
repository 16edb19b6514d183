"""An AMP argument for text of any length; AMP's own are limited to 65,535 bytes."""

from __future__ import annotations

from typing import Any

from twisted.protocols import amp

__all__ = ["LongText"]

_PART = 65_000


class LongText(amp.Argument):
    """Unicode text, divided into several values of a box."""

    def toBox(self, name: bytes, strings: Any, objects: Any, proto: Any) -> None:  # noqa: ARG002 - amp's
        """Add the text to the box in parts."""
        # An error's text may quote a file name that is not UTF-8, of which Python makes surrogates.
        data = objects[name.decode()].encode(errors="backslashreplace")
        strings[name] = data[:_PART]
        for number, start in enumerate(range(_PART, len(data), _PART), 1):
            strings[b"%s.%d" % (name, number)] = data[start : start + _PART]

    def fromBox(self, name: bytes, strings: Any, objects: Any, proto: Any) -> None:  # noqa: ARG002 - amp's
        """Join the parts of the text."""
        parts = [strings[name]]
        while (part := strings.get(b"%s.%d" % (name, len(parts)))) is not None:
            parts.append(part)
        objects[name.decode()] = b"".join(parts).decode()
