"""The names that a filter may have meant: queues, work types, nodes, groups and tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["MOST_KNOWN", "about_known_names"]

MOST_KNOWN: Final = 1000
"""How many names of a kind are read."""

_STATES: Final = ("ready", "waiting", "assigned", "failed")
# The first of each, and whether the given name is among the rest.
_OF_JOBS: Final = " union ".join(
    part.replace("{state}", state)
    for state in _STATES
    for part in (
        '(select "{column}" from {schema}.job_{state} where job_id > 0 limit 20000)',
        '(select "{column}" from {schema}.job_{state}'
        ' where "{column}" = (select name from given) limit 1)',
    )
)
_CONTROLLED: Final = "select key from {schema}.control where kind = '{column}'"
_TYPES: Final = "select {column} from {schema}.work_type"
_SOURCES: Final[Mapping[str, Sequence[str]]] = {
    "queue": (_OF_JOBS, "select unnest(queues) from {schema}.node_info", _TYPES, _CONTROLLED),
    "work_type": (_OF_JOBS, _TYPES),
    "group": (_OF_JOBS, _CONTROLLED),
    "tenant": (_OF_JOBS, _CONTROLLED),
    "node": ("select name from {schema}.node_info",),
}
# Those that begin as the given name does come before others, where there are too many.
_KNOWN: Final = """
    with given as (select %s::text as name), known (name) as ({sources})
    select known.name from known, given where known.name is not null
     order by known.name = given.name desc, starts_with(known.name, left(given.name, 3)) desc, 1
     limit {most}
"""
_BOUND: Final = "set local statement_timeout = 2000; "


def about_known_names(schema: str, kind: str, given: str) -> Inquiry[list[str]]:
    """Query the names that live jobs, nodes and limits have: the given one first, if it is one.

    Args:
        schema: The name of the schema.
        kind: ``queue, work_type, group, tenant`` or ``node``.
        given: The name that a filter has.
    """
    sources = " union ".join(_SOURCES[kind]).format(schema=schema, column=kind)
    rows = yield Question(_BOUND + _KNOWN.format(sources=sources, most=MOST_KNOWN), (given,))
    return [row["name"] for row in rows]
