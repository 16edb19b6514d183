"""The statements by which an application checks its database, for any driver."""

from __future__ import annotations

from txqueue.store.schema.files import checked_name
from txqueue.store.schema.version import FIND, IDENTITY

__all__ = ["has_schema_query", "identity_query", "unserved_query", "version_query"]


def has_schema_query(schema: str) -> str:
    """Return the statement that tells whether the schema is there."""
    return f"select to_regclass('{checked_name(schema)}.migration') is not null"


def version_query(schema: str) -> str:
    """Return the statement for the fields of a `SchemaVersion`."""
    return FIND.format(schema=checked_name(schema))


def identity_query(schema: str) -> str:
    """Return the statement whose first column is the identity of the queue."""
    return IDENTITY.format(schema=checked_name(schema))


def unserved_query(schema: str) -> str:
    """Return the statement for those of the queues ``%s`` that no living node serves."""
    return (
        "select its.queue from unnest(%s::text[]) as its (queue) where not exists ("
        f"select from {checked_name(schema)}.node_info where state = 'alive'"
        " and its.queue = any(queues) and heartbeat_at + lease > now())"
        " order by 1"
    )
