"""A database as a shop's might look on a bad morning, for browsers to look at."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2

__all__ = ["HOSTILE", "fill", "fill_with_hostile_texts"]

HOSTILE = (
    "<script>document.title='hacked'</script><img src=x onerror=alert(1)>\x1b[31m\u202egnp.exe"
)
"""Markup, a terminal's escape sequence, and a character that turns the direction of text."""

_ENQUEUE = """
    select txqueue.enqueue('hostile.kind', %s, queue => %s, "group" => %s, tenant => %s,
        options => %s)
"""
_ATTEMPT = """
    insert into txqueue.failed_attempt (job_id, attempt, began, error, error_class, log)
    values (%s, 1, now(), %s, %s, %s)
"""
_SCHEDULE = """
    insert into txqueue.schedule (name, kind, seconds, job, error)
    values (%s, 'every', 60, '{"work_type": "hostile.kind"}', %s)
"""
_NODE = """
    insert into txqueue.node_info
        (name, hostname, pid, incarnation, lease, capacity, queues, work_types, version)
    values (%s, %s, 1, 99, '1 day', 1, array[%s], '{hostile.kind}', %s)
"""


@contextmanager
def _cursor(dsn: str) -> Iterator[Any]:
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor


def fill(dsn: str, each: int = 40) -> None:
    """Write nodes, work types, jobs in all states, failures, schedules, limits and acts.

    Args:
        dsn: An empty database with the schema.
        each: How many jobs of each kind.
    """
    sql = Path(__file__).with_suffix(".sql").read_text("utf-8")
    with _cursor(dsn) as cursor:
        cursor.execute(sql.replace("EACH", str(each)))


def fill_with_hostile_texts(dsn: str) -> None:
    """Write hostile texts into all that a client, a handler or an operator may fill."""
    short, long = HOSTILE, HOSTILE + "w" * 400
    # Of the longest that an act takes.
    who = long[:300]
    trace = "\n".join([long] * 10_000)
    # No tag has a control character.
    tags = json.dumps({"tags": {"w" * 50: HOSTILE.replace("\x1b", "") + "w" * 90}})
    with _cursor(dsn) as cursor:
        cursor.execute(_ENQUEUE, (json.dumps({long: [long] * 3}), short, long, short, tags))
        job_id = cursor.fetchone()[0]
        cursor.execute(_ATTEMPT, (job_id, trace, long, trace))
        cursor.execute("update txqueue.job set error = %s where job_id = %s", (trace, job_id))
        cursor.execute("select txqueue.pause('queue', %s, %s)", (short, who))
        cursor.execute("select txqueue.pause('group', %s, %s)", (long, who))
        cursor.execute(_SCHEDULE, (short, long))
        cursor.execute(_NODE, (long, long, short, short))
