"""Read-only queries for metrics of the whole installation; see `queue_state`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import frozen

from txqueue.policy.findings.status import Rest, queues
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.reads import queue_state

# The most paused queues that are read.
_PAUSED = 10_000
_REST = """
    select (select count(*) from {schema}.schedule
             where is_active and isfinite(next_due)
               and next_due < clock_timestamp() - interval '1 minute') as overdue,
           (select coalesce(max(extract(epoch from clock_timestamp() - since)), 0)::double precision
              from {schema}.old_snapshots) as snapshot,
           (select case when is_called then last_value else last_value - 1 end
              from {schema}.job_id) as enqueued,
           items.done as items_done, items.failed as items_failed,
           items.remaining as items_remaining
      from (select coalesce(sum(done), 0)::bigint as done,
                   coalesce(sum(failed), 0)::bigint as failed,
                   coalesce(sum(remaining), 0)::bigint as remaining
              from {schema}.workset_status) as items
"""
_MINUTE = """
    select queue, max(wait_p95) as p95,
           sum(wait_p50 * done) / nullif(sum(done) filter (where wait_p50 is not null), 0) as p50
      from {schema}.minute_counts
     where queue <> '' and at = (select max(at) from {schema}.minute_mark
                                  where at > clock_timestamp() - interval '3 minutes')
     group by queue
     order by sum(done) desc limit {most}
"""


@frozen
class Installation:
    """The state of the whole installation, for metrics.

    Attributes:
        queues: The largest queues, and those that nodes serve, as `about_queues` returns them.
        others: All other queues together.
        paused: The names of the paused queues.
        waits: The 50th and 95th percentile of the time until jobs of a queue started in the last
            minute, in seconds: ``queue, p50, p95`` each.
        nodes: How many nodes are in each state.
        overdue: How many schedules are overdue by a minute.
        snapshot: The age in seconds of the oldest snapshot that keeps dead rows; 0 for none.
        enqueued: How many jobs have been numbered since the schema was made.
        items_done: How many items of all worksets are done.
        items_failed: How many have failed.
        items_remaining: How many are left.
    """

    queues: list[dict[str, Any]]
    others: Rest
    paused: frozenset[str]
    waits: list[dict[str, Any]]
    nodes: Counter[str]
    overdue: int
    snapshot: float
    enqueued: int
    items_done: int
    items_failed: int
    items_remaining: int


def about_installation(schema: str) -> Inquiry[Installation]:
    """Query the state of the whole installation."""
    nodes = yield from queue_state.about_nodes(schema)
    states = yield Question(f"select state, count(*) as nodes from {schema}.node_status group by 1")
    live = yield from queue_state.about_live(schema, nodes, queue_state.LARGEST)
    recent = yield from queue_state.about_recent(schema, queue_state.LARGEST)
    recent_queues = [row for row in recent if row["queue"] is not None]
    paused = yield Question(
        f"select key from {schema}.control where kind = 'queue' and is_paused limit %s", (_PAUSED,)
    )
    waits = yield Question(_MINUTE.format(schema=schema, most=queue_state.LARGEST))
    [rest] = yield Question(_REST.format(schema=schema))
    return Installation(
        queues=queues(live.queues, recent_queues, nodes, (yield from queue_state.about_clock())),
        others=live.other_queues,
        paused=frozenset(row["key"] for row in paused),
        waits=waits,
        nodes=Counter({row["state"]: row["nodes"] for row in states}),
        **rest,
    )
