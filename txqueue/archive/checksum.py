"""A checksum over all columns of many rows, which does not depend on how they are batched."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Checksum"]


class Checksum:
    """A checksum of rows in their order, over the values and nulls of each column.

    Args:
        schema: The columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        # Separate hashes, so that the ends of batches make no difference.
        self._parts = [[blake2b(digest_size=16) for _ in range(3)] for _ in schema]
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows to the checksum."""
        self.rows += batch.num_rows
        for column, parts in zip(batch.columns, self._parts, strict=True):
            for part, octets in zip(parts, _octets(column), strict=False):
                part.update(octets)

    @property
    def text(self) -> str:
        """Return the checksum of all rows added so far, as hexadecimal text."""
        digest = blake2b(str(self.rows).encode(), digest_size=16)
        for field, parts in zip(self._schema, self._parts, strict=True):
            digest.update(f"{field.name} {field.type};".encode())
            for part in parts:
                digest.update(part.digest())
        return digest.hexdigest()


def _octets(column: Any) -> Iterator[memoryview]:
    yield _fixed(column.is_valid().cast(pa.uint8()))
    if pa.types.is_string(column.type):
        values = pc.fill_null(column, "")
        yield _fixed(pc.binary_length(values))
        yield _text(values)
    elif pa.types.is_timestamp(column.type):
        yield _fixed(pc.fill_null(column.cast(pa.int64()), 0))
    elif pa.types.is_boolean(column.type):
        yield _fixed(pc.fill_null(column.cast(pa.uint8()), 0))
    else:
        yield _fixed(pc.fill_null(column, 0))


def _fixed(column: Any) -> memoryview:
    """Return the values of a column of numbers without nulls."""
    width = column.type.bit_width // 8
    octets = memoryview(column.buffers()[1] or b"")
    return octets[column.offset * width : (column.offset + len(column)) * width]


def _text(column: Any) -> memoryview:
    """Return the concatenated values of a column of texts without nulls."""
    _, offsets, octets = column.buffers()
    if not len(column) or octets is None:
        return memoryview(b"")
    positions = memoryview(offsets).cast("i")
    return memoryview(octets)[positions[column.offset] : positions[column.offset + len(column)]]
