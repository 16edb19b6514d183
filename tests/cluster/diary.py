"""What the application of these tests notes of the jobs that it ran, and where."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2

TABLES = """
    create table run (
        job_id bigint, attempt integer, what text, pid integer, node text,
        at timestamptz default clock_timestamp());
    create table effect (job_id bigint, note text);
"""


class Diary:
    """The application's own connection, on which each note is committed at once."""

    def __init__(self) -> None:
        self._connection: Any = None
        self._turn = threading.Lock()

    def note(self, job: Any, what: str) -> None:
        """Note that something happened to a job."""
        node = os.environ.get("TXQUEUE_TEST_NODE")
        row = (job.id, job.attempt, what, os.getpid(), node)
        self._execute("insert into run values (%s, %s, %s, %s, %s)", row)

    def count(self, job: Any, what: str) -> int:
        """How often that has happened to it so far."""
        row = self._execute(
            "select count(*) from run where job_id = %s and what = %s", (job.id, what)
        )
        return int(row[0])

    @contextmanager
    def run(self, job: Any) -> Iterator[None]:
        """Note that a job starts, and that it ends unless it raises."""
        self.note(job, "start")
        yield
        self.note(job, "end")

    def _execute(self, statement: str, parameters: tuple[object, ...]) -> Any:
        with self._turn:
            if self._connection is None:
                dsn = os.environ["TXQUEUE_DSN"]
                self._connection = psycopg2.connect(dsn, application_name="application")
                self._connection.autocommit = True
            with self._connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return cursor.fetchone() if cursor.description else None


diary = Diary()
