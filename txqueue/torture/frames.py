"""PostgreSQL's messages, cut out of a stream of bytes: as much as a proxy must understand.

Over a unix socket nobody asks for encryption, so that every byte can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from attrs import define, field

__all__ = ["NOTIFICATION", "QUERY", "READY", "Frames", "kind_of", "statement_of"]

QUERY, NOTIFICATION, READY = b"Q", b"A", b"Z"
_LENGTH = struct.Struct("!i")


@define
class Frames:
    """Whole messages of one direction; what has come of the last one is kept until it is whole.

    Args:
        is_client: Whether it is the client that speaks: its first message has no kind.
    """

    is_client: bool
    _rest: bytes = field(default=b"", init=False)
    _head: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._head = 0 if self.is_client else 1

    def fed(self, data: bytes) -> Iterator[bytes]:
        """Take what has come in and give the messages that are whole."""
        self._rest += data
        while size := self._size():
            message, self._rest = self._rest[:size], self._rest[size:]
            self._head = 1
            yield message

    def _size(self) -> int:
        """The length of the message that begins here, 0 as long as it is not whole."""
        if len(self._rest) < self._head + _LENGTH.size:
            return 0
        size = self._head + int(_LENGTH.unpack_from(self._rest, self._head)[0])
        return size if len(self._rest) >= size else 0


def kind_of(message: bytes) -> bytes:
    """The letter that says what kind of message it is."""
    return message[:1]


def statement_of(message: bytes) -> str:
    """The SQL of a message of the simple protocol, an empty text if it is another message."""
    return message[5:-1].decode("utf-8", "replace") if kind_of(message) == QUERY else ""
