"""The query for the version of the schema, with which each client begins."""

from __future__ import annotations

from txqueue.errors import SchemaMismatch
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.schema.version import FIND, SchemaVersion, check_version

__all__ = ["ensure_version"]


def ensure_version(schema: str) -> Inquiry[None]:
    """Check that this code can work with the schema.

    Raises:
        SchemaMismatch: When the schema is missing, older, or too new.
    """
    try:
        [row] = yield Question(FIND.format(schema=schema))
    except SchemaMismatch:
        # There is no such table.
        check_version(None, schema)
    else:
        check_version(SchemaVersion(row["number"], row["serves"]), schema)
