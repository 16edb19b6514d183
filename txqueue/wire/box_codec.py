"""Encodes and decodes AMP's boxes, without Twisted's method call for every key and value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from attrs import define, field

__all__ = ["Box", "BoxReader", "NoBox", "box_bytes"]

Box = dict[bytes, bytes]

_LONGEST_KEY = 255


class NoBox(Exception):
    """The received bytes are not an AMP box, or the box is larger than allowed."""


@define(eq=False)
class BoxReader:
    """Parses a stream of bytes into AMP boxes.

    A box has alternating keys and values, each after its length in two bytes, and ends with an
    empty key: https://docs.twisted.org/en/stable/api/twisted.protocols.amp.html.

    Attributes:
        most_bytes: The largest size of a box; larger ones are not buffered.
        most_keys: The most keys of a box.
    """

    most_bytes: float = math.inf
    most_keys: float = math.inf
    _rest: bytes = field(default=b"", init=False)
    _box: Box = field(factory=dict, init=False)
    _key: bytes | None = field(default=None, init=False)
    _size: int = field(default=0, init=False)

    def feed(self, data: bytes) -> Iterator[Box]:
        """Add received bytes; yield the complete boxes.

        Raises:
            NoBox: When bytes are not a valid box; after the boxes before them were yielded.
        """
        data = self._rest + data
        offset, end = 0, len(data)
        while end - offset >= 2:
            length = data[offset] << 8 | data[offset + 1]
            if self._key is None and length > _LONGEST_KEY:
                raise NoBox("sent bytes that are not a box")
            if self._size + length > self.most_bytes or len(self._box) > self.most_keys:
                raise NoBox("sent a box that is too large")
            next_offset = offset + 2 + length
            if next_offset > end:
                break
            string, offset = data[offset + 2 : next_offset], next_offset
            self._size += length + 2
            if self._key is not None:
                self._box[self._key] = string
                self._key = None
            elif length:
                self._key = string
            else:
                box, self._box, self._size = self._box, {}, 0
                yield box
        self._rest = data[offset:]


def box_bytes(box: Mapping[bytes, bytes]) -> bytes:
    """Return an AMP box as bytes.

    Raises:
        OverflowError: When a value has more than 65,535 bytes.
    """
    parts: list[bytes] = []
    for key, value in box.items():
        parts += (len(key).to_bytes(2), key, len(value).to_bytes(2), value)
    parts.append(b"\0\0")
    return b"".join(parts)
