"""The jobs of other queues in PostgreSQL that wait are moved by the statements of the pages."""

from typing import Final

import pytest

from tests.docs.markdown import ROOT
from tests.docs.test_examples import run_sql, statements

HOWTO: Final = ROOT / "docs" / "howto"
# The columns that the statements use, of PgQueuer 1.6, graphile-worker 0.18 and Oban 0.7. On what
# these make themselves, the statements were played by hand.
PGQUEUER: Final = (
    """create table pgqueuer (
        id bigint primary key, priority integer not null, execute_after timestamptz not null,
        status text not null, entrypoint text not null, dedupe_key text, payload bytea)""",
    """insert into pgqueuer values
        (1, 7, now(), 'queued', 'confirm', null, '{"to": "ada"}'),
        (2, 0, now() + interval '1 day', 'queued', 'confirm', 'a', null),
        (3, -1, now(), 'picked', 'confirm', null, null)""",
)
GRAPHILE: Final = (
    "create schema graphile_worker",
    "create table graphile_worker._private_tasks (id integer, identifier text)",
    "create table graphile_worker._private_job_queues (id integer, queue_name text)",
    """create table graphile_worker._private_jobs (
        id bigint primary key, job_queue_id integer, task_id integer not null, payload json,
        priority smallint not null, run_at timestamptz not null, key text, is_available boolean)""",
    "insert into graphile_worker._private_tasks values (1, 'confirm')",
    "insert into graphile_worker._private_job_queues values (5, 'account 5')",
    """insert into graphile_worker._private_jobs values
        (1, 5, 1, '{"to": "ada"}', -3, now(), null, true),
        (2, null, 1, '{}', 0, now() + interval '1 day', 'a', true),
        (3, null, 1, '{}', 0, now(), null, false),
        (4, null, 1, '{"_cron": {}}', 0, now(), null, true)""",
)
OBAN: Final = (
    """create table oban_jobs (
        id bigint primary key, state text not null, queue text not null, worker text not null,
        priority smallint not null, args jsonb not null, meta jsonb not null,
        scheduled_at timestamp not null, cancelled_at timestamp)""",
    """insert into oban_jobs values
        (1, 'available', 'default', 'confirm', 0, '{"to": "ada"}', '{}',
         timezone('UTC', now()), null),
        (2, 'scheduled', 'default', 'confirm', 9, '{}', '{}',
         timezone('UTC', now() + interval '1 day'), null),
        (3, 'executing', 'default', 'confirm', 0, '{}', '{}', timezone('UTC', now()), null),
        (4, 'available', 'default', 'confirm', 0, '{}', '{"cron": true}',
         timezone('UTC', now()), null)""",
)
MOVED: Final = """
    select payload ->> 'to', priority, "group", options ->> 'unique',
           not_before > now() + interval '23 h'
      from txqueue.job where work_type = 'confirm' order by job_id"""


@pytest.mark.parametrize(
    ("page", "tables", "moved"),
    [
        ("pgqueuer", PGQUEUER, [("ada", 9, None, None, False), (None, 4, None, "a", True)]),
        (
            "graphile-worker",
            GRAPHILE,
            [("ada", 7, "account 5", None, False), (None, 4, None, "a", True)],
        ),
        ("oban", OBAN, [("ada", 4, None, None, False), (None, 0, None, None, True)]),
    ],
)
def test_waiting_jobs_are_moved_by_one_statement(
    migrated_database18: str, page: str, tables: tuple[str, ...], moved: list[tuple[object, ...]]
) -> None:
    """In their order, with priority, group, key and time; running and periodic ones stay."""
    [move] = statements(HOWTO / f"move-from-{page}.md")
    run_sql(migrated_database18, *tables)
    assert len(run_sql(migrated_database18, move)) == len(moved)
    assert run_sql(migrated_database18, move) == []
    assert run_sql(migrated_database18, MOVED) == moved
