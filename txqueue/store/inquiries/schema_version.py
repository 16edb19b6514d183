"""The query for the version of the schema, with which each client begins."""

from __future__ import annotations

from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.schema.version import FIND, SchemaVersion, check_version

__all__ = ["ensure_version"]


def ensure_version(schema: str) -> Inquiry[None]:
    """Check that this code can work with the schema.

    Raises:
        SchemaMismatch: When the schema is missing, older, or too new.
    """
    table = f"{schema}.migration"
    [found] = yield Question("select to_regclass(%s) is not null as is_there", (table,))
    version = None
    if found["is_there"]:
        [row] = yield Question(FIND.format(schema=schema))
        version = SchemaVersion(row["number"], row["serves"])
    check_version(version, schema)
