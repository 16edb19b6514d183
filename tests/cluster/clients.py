"""Clients of plain SQL that enqueue at the same time."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg2

__all__ = ["EACH", "enqueue_together"]

EACH = 40
"""How many jobs each client enqueues."""


def enqueue_together(dsn: str, work_type: str, clients: int) -> int:
    """Enqueue in many sessions at a time, of which every fourth rolls back; return how many."""
    with ThreadPoolExecutor(clients) as threads:
        return sum(threads.map(partial(_enqueue, dsn, work_type), range(clients)))


def _enqueue(dsn: str, work_type: str, number: int) -> int:
    """Enqueue jobs in transactions of their own; return how many are committed."""
    commits = number % 4 > 0
    with closing(psycopg2.connect(dsn)) as session, session.cursor() as cursor:
        for _ in range(EACH):
            cursor.execute("select txqueue.enqueue(%s, '{}')", (work_type,))
            (session.commit if commits else session.rollback)()
    return EACH if commits else 0
