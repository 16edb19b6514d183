"""Read-only queries about the queue, for blocking and asynchronous callers.

Each is written as a generator, an `Inquiry`, that yields statements, receives their rows, and
returns the result; the caller runs the statements.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from txqueue.policy.blockers.blocked_jobs import blocked_warnings
from txqueue.policy.facts.live_jobs import MOST_SERVED, Rest, served_queues
from txqueue.policy.facts.status import node_document, queues, summary, work_types
from txqueue.policy.facts.warnings import explained, idle, recurring
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows
from txqueue.store.inquiries.together import rows_of, together
from txqueue.store.reads.blocked_counts import about_blocked
from txqueue.store.reads.live_counts import (
    LARGEST,
    about_live,
    about_named_queues,
    about_recent,
)
from txqueue.store.reads.workset_list import about_worksets
from txqueue.store.schema.version import IDENTITY, QueueIdentity

__all__ = [
    "about_all",
    "about_clock",
    "about_controls",
    "about_identity",
    "about_nodes",
    "about_queues",
    "about_tenants",
    "about_work_types",
]

_SCHEDULES = """
    select count(*) filter (where is_active) as active,
           count(*) filter (where not is_active) as paused,
           count(*) filter (where is_overdue) as overdue,
           count(*) filter (where error is not null) as refused,
           min(name) filter (where is_overdue or error is not null) as such_as
      from {schema}.schedule, lateral (
           select is_active and isfinite(next_due)
              and next_due < clock_timestamp() - interval '1 minute' as is_overdue) as each
"""
_TENANTS_TOLD = 100
# How many nodes, pauses and limits, and published work types are read: the nodes that live, and the
# first of others by name.
_NODES_TOLD, _CONTROLS_TOLD, _TYPES_TOLD = 1000, 1000, 500
_LIVING_FIRST = """
    select * from (select * from {schema}.node_status
                    order by state in ('alive', 'draining') desc, heartbeat_at desc, name
                    limit %s) as each
     where %s::text is null or name collate "C" > %s
     order by name collate "C" limit %s
"""


def about_all(schema: str) -> Inquiry[dict[str, Any]]:
    """Query the state of all queues and nodes, with warnings; see `summary`."""
    nodes, recent, snapshots, history, controls, worksets, [schedules], now = yield from together(
        _nodes(schema),
        about_recent(schema, LARGEST),
        _view(schema, "old_snapshots", "since nulls last, name"),
        _view(schema, "history_size", "state"),
        about_controls(schema),
        about_worksets(schema),
        rows_of(Question(_SCHEDULES.format(schema=schema))),
        about_clock(),
    )
    # Alone, as these take long where there are many jobs.
    live = yield from about_live(schema, nodes, LARGEST)
    tenants = yield from about_tenants(schema, _TENANTS_TOLD)
    blocked = yield from about_blocked(schema)
    document = summary(
        live=live,
        recent=recent,
        nodes=nodes,
        snapshots=snapshots,
        history=history,
        controls=controls,
        now=now,
    )
    found = [
        *blocked_warnings(blocked.reasons),
        *document["warnings"],
        *recurring(schedules),
        *idle(worksets),
    ]
    document["warnings"] = explained(found, live, nodes, schedules["active"], now)
    counts = {"blocked": blocked.reasons, "blocked_left_out": blocked.left_out}
    lists = {**counts, "tenants": tenants, "worksets": worksets}
    return {**document, **lists, "schedules": schedules}


def about_tenants(schema: str, limit: int) -> Inquiry[list[dict[str, Any]]]:
    """Query the tenants that have jobs, those with the most ready ones first.

    Args:
        schema: The name of the schema.
        limit: The largest number of rows.
    """
    rows = yield Question(
        f"select tenant, waiting, ready, assigned, failed, share, concurrency, is_paused,"
        " extract(epoch from clock_timestamp() - oldest_ready)::float8 as oldest_ready_seconds"
        f" from {schema}.live_tenants order by ready desc, waiting desc, tenant limit %s",
        (limit,),
    )
    return rows


def about_queues(
    schema: str, after: str | None = None, limit: int = LARGEST
) -> Inquiry[list[dict[str, Any]]]:
    """Query the first queues by name that have jobs, had some recently, or that a node serves.

    Args:
        schema: The name of the schema.
        after: The last name of the previous page; None for the first page.
        limit: The largest number of rows.
    """
    nodes = yield from _nodes(schema)
    served = sorted(served_queues(nodes))[:MOST_SERVED]
    live, recent, names = yield from about_named_queues(schema, served, after, limit)
    states = queues(live, recent, nodes, (yield from about_clock()))
    shown = set(names)
    return [row for row in states if row["queue"] in shown]


def about_nodes(
    schema: str, after: str | None = None, limit: int = _NODES_TOLD
) -> Inquiry[list[dict[str, Any]]]:
    """Query the nodes by name; of more than a thousand, those that live or did so last.

    Args:
        schema: The name of the schema.
        after: The last name of the previous page; None for the first page.
        limit: The largest number of rows.
    """
    nodes, now = yield from together(_nodes(schema, after, limit), about_clock())
    return [node_document(node, now) for node in nodes]


def _nodes(schema: str, after: str | None = None, limit: int = _NODES_TOLD) -> Inquiry[Rows]:
    sql = _LIVING_FIRST.format(schema=schema)
    return (yield Question(sql, (_NODES_TOLD, after, after, limit)))


def about_work_types(schema: str) -> Inquiry[tuple[list[dict[str, Any]], Rest]]:
    """Query work types that nodes have published or jobs have, with their numbers of jobs.

    Returns:
        The first published ones, and those with the most jobs; and the others together.
    """
    published, nodes = yield from together(
        rows_of(
            Question(
                f"select * from {schema}.work_type order by work_type limit %s", (_TYPES_TOLD,)
            )
        ),
        _nodes(schema),
    )
    live = yield from about_live(schema, nodes, LARGEST)
    return work_types(published, live.work_types, nodes), live.other_types


def about_identity(schema: str) -> Inquiry[QueueIdentity]:
    """Query which queue this is."""
    [row] = yield Question(IDENTITY.format(schema=schema))
    return QueueIdentity.of_row(row, schema)


def about_controls(
    schema: str, after: str | None = None, limit: int = _CONTROLS_TOLD, queue: str | None = None
) -> Inquiry[list[dict[str, Any]]]:
    """Query the first pauses and limits by kind and key.

    Args:
        schema: The name of the schema.
        after: Kind and key of the last one of the previous page; None for the first page.
        limit: The largest number of rows.
        queue: Only those of this queue; None for all.
    """
    columns = "kind, key, is_paused, concurrency, rate, burst, share, reserve, backlog, is_full"
    return (
        yield Question(
            f"select {columns} from {schema}.control"
            " where (%s::text is null or (kind || ' ' || key) collate \"C\" > %s)"
            " and (%s::text is null or kind = 'queue' and key = %s)"
            " order by (kind || ' ' || key) collate \"C\" limit %s",
            (after, after, queue, queue, limit),
        )
    )


def about_clock(schema: str = "") -> Inquiry[datetime]:  # noqa: ARG001 - as the others
    """Query the database's time, from which all ages are computed."""
    rows = yield Question("select clock_timestamp() as now")
    now: datetime = rows[0]["now"]
    return now


def _view(schema: str, name: str, order: str) -> Inquiry[Rows]:
    return (yield Question(f"select * from {schema}.{name} order by {order}"))
