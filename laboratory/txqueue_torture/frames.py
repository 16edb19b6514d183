"""Parses PostgreSQL's protocol messages, as far as a proxy needs.

Connections over a unix socket are not encrypted, so the proxy can read every byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from attrs import define, field

__all__ = ["NOTIFICATION", "QUERY", "READY", "Frames", "message_kind", "statement_of"]

QUERY, NOTIFICATION, READY = b"Q", b"A", b"Z"
_LENGTH = struct.Struct("!i")


@define
class Frames:
    """Splits a stream into messages; an incomplete last message is kept until its rest arrives.

    Args:
        is_client: Whether the stream is the client's, whose first message has no kind.
    """

    is_client: bool
    _rest: bytes = field(default=b"", init=False)
    _head: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._head = 0 if self.is_client else 1

    def fed(self, data: bytes) -> Iterator[bytes]:
        """Add received bytes; yield the complete messages."""
        self._rest += data
        while size := self._size():
            message, self._rest = self._rest[:size], self._rest[size:]
            self._head = 1
            yield message

    def _size(self) -> int:
        """Return the length of the first message; 0 if it is incomplete."""
        if len(self._rest) < self._head + _LENGTH.size:
            return 0
        size = self._head + int(_LENGTH.unpack_from(self._rest, self._head)[0])
        return size if len(self._rest) >= size else 0


def message_kind(message: bytes) -> bytes:
    """Return the letter of a message's kind."""
    return message[:1]


def statement_of(message: bytes) -> str:
    """Return the SQL of a simple query message; an empty text for other messages."""
    return message[5:-1].decode("utf-8", "replace") if message_kind(message) == QUERY else ""
