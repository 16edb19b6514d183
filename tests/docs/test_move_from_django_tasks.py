"""The tasks of django-tasks-db that wait are moved by the statement of the page."""

from typing import Final

from tests.docs.markdown import ROOT
from tests.docs.test_examples import run_sql, statements

PAGE: Final = ROOT / "docs" / "howto" / "move-from-django-tasks.md"
# The columns of version 0.13 that the statement uses, with Django's types.
TABLE: Final = """create table django_tasks_database_dbtaskresult (
    id uuid primary key default gen_random_uuid(), status varchar(10) not null,
    enqueued_at timestamptz not null, args_kwargs jsonb not null, priority integer not null,
    task_path text not null, queue_name varchar(32) not null, run_after timestamptz not null)"""
ROWS: Final = """insert into django_tasks_database_dbtaskresult
        (status, enqueued_at, args_kwargs, priority, task_path, queue_name, run_after)
    select case priority when 7 then 'RUNNING' else 'READY' end, now() + n * interval '1 s',
           jsonb_build_object('args', array[n], 'kwargs', '{}'::jsonb), priority,
           'shop.tasks.send', 'mail',
           case n when 1 then now() + interval '1 day' else '9999-01-01' end
      from unnest('{0, 7, 1, 20, 21, 100, -1, -25, -26, -100}'::int[])
           with ordinality as given (priority, n)"""


def test_waiting_tasks_are_moved_by_one_statement(migrated_database18: str) -> None:
    """In their order, each with its arguments, time and step of priority; running ones stay."""
    [move] = statements(PAGE)
    run_sql(migrated_database18, TABLE, ROWS)
    assert len(run_sql(migrated_database18, move)) == 9
    assert run_sql(migrated_database18, move) == []
    sql = """select (payload #>> '{args,0}')::int, priority, not_before > now() + interval '23 h'
               from txqueue.job where work_type = 'shop.tasks.send' and queue = 'mail'
              order by job_id"""
    moved = [(1, 4), (3, 5), (4, 5), (5, 6), (6, 9), (7, 3), (8, 3), (9, 2), (10, 0)]
    assert run_sql(migrated_database18, sql) == [(n, step, n == 1) for n, step in moved]
    left = "select status, priority from django_tasks_database_dbtaskresult"
    assert run_sql(migrated_database18, left) == [("RUNNING", 7)]
