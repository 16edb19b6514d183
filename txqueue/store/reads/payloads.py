"""Read-only queries about the schemas that nodes have published, and the payloads that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from txqueue.model.storable import read_json
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, ask

_WAITING: Final = """
    select job_id, work_type, its.is_encrypted, case when work_type = any(%s::text[])
           and not its.is_encrypted then {schema}.readable_json(payload)::text end as payload
      from {schema}.job as job, lateral (
           select work_type in (select kind.work_type from {schema}.work_type as kind
                                 where kind.policy -> 'encrypted' = 'true')
                  and coalesce({schema}.readable_json(payload) ? 'encrypted', false)
                  as is_encrypted) as its
     where state in ('waiting', 'ready') and job_id > %s order by job_id limit %s"""


def about_schemas(schema: str, work_type: str | None = None) -> Inquiry[Rows]:
    """Query ``work_type`` and ``schema`` of the published work types, or of one, in their order.

    Args:
        schema: The name of the schema that has the tables.
        work_type: Only this type.
    """
    return ask(
        f"select work_type, schema from {schema}.work_type"
        " where work_type = coalesce(%s, work_type) order by work_type",
        (work_type,),
    )


def about_waiting_payloads(
    schema: str, work_types: Sequence[str], after: int, limit: int
) -> Inquiry[Rows]:
    """Query a page of the waiting and ready jobs, in the order of their numbers.

    Args:
        schema: The name of the schema that has the tables.
        work_types: The types whose payloads are read.
        after: The number of the last job of the page before; 0 for the first page.
        limit: The most jobs of the page.

    Returns:
        Their ``job_id``, ``work_type``, ``payload`` and ``is_encrypted``. The payload is None for
        other types, and where it is encrypted or damaged.
    """
    rows = yield Question(_WAITING.format(schema=schema), (list(work_types), after, limit))
    return [{**row, "payload": read_json(row["payload"])} for row in rows]
