"""A day of the past, to be archived: its jobs in the table, and in a file."""

from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.db.masters import Master

DAY: Final = date(2020, 1, 1)
LEAF: Final = "job_done_20200101"
NOON: Final = datetime(2020, 1, 1, 12, tzinfo=UTC)
HOSTILE: Final = '\'; -- "x"\n\tZoë 🎉 \x01\\'

MOMENT: Final = (
    "case {0} when 'infinity' then 253402214400000000"
    " else extract(epoch from {0}) * 1000000 end::bigint"
)
TEXT: Final = "{}::text"

# A vacuum of its own at the wrong moment would make a day one that is in use.
LEAVES = """
    create table txqueue.job_{0}_20200101 (like txqueue.job_{0} including defaults)
        with (autovacuum_enabled = false);
    alter table txqueue.job_{0} attach partition txqueue.job_{0}_20200101
        for values from ('2020-01-01Z') to ('2020-01-02Z')
"""
JOBS = """
    insert into txqueue.job (job_id, rank, not_before, not_after, enqueued_at, assigned_at,
        started_at, finished_at, assignment, node_id, incarnation, weight, priority, attempt, lane,
        state, work_type, queue, "group", tenant, options, payload, error, result)
    select n, noon, noon - interval '1 s', case n %% 5 when 0 then 'infinity'::timestamptz end,
        noon, noon, case n %% 7 when 0 then noon end, noon + n %% 1000 * interval '1.000001 s',
        n, 1, 1, 1, 4, 1, 0, %s, 'test.kind', 'default', case n %% 2 when 0 then %s end,
        case n %% 3 when 0 then 'ada' end, case n %% 11 when 0 then '{"timeout": 3}'::jsonb end,
        jsonb_build_object('n', n, 'text', %s::text),
        case n %% 13 when 0 then E'Error: x\\n' || %s end,
        case n %% 4 when 0 then 'null'::jsonb end
      from generate_series(1, %s) as n,
           (values (timestamptz '2020-01-01 12:00:00.123456Z')) as at (noon)
"""


def fill(node: Master, jobs: int, state: str = "done") -> list[tuple[Any, ...]]:
    """Fill the day; returns all columns of its jobs."""
    node.cursor.execute(JOBS, (state, HOSTILE, HOSTILE, HOSTILE, jobs))
    return columns(node)


def columns(node: Master) -> list[tuple[Any, ...]]:
    """All columns of all jobs, as an archive has them."""
    node.cursor.execute(
        "select attname, atttypid::regtype::text from pg_attribute"
        " where attrelid = 'txqueue.job'::regclass and attnum > 0 order by attnum"
    )
    shown = {"timestamp with time zone": MOMENT, "jsonb": TEXT, "txqueue.job_state": TEXT}
    selected = ", ".join(shown.get(kind, "{}").format(f'"{name}"') for name, kind in node.cursor)
    node.cursor.execute(f"select {selected} from txqueue.job order by job_id")
    return node.cursor.fetchall()


def read(path: str, filesystem: Any = None) -> list[tuple[Any, ...]]:
    """The same of an archived day, by a reader that knows nothing of txqueue."""
    return values(pq.read_table(path, filesystem=filesystem).sort_by("job_id"))


def values(table: Any) -> list[tuple[Any, ...]]:
    """The rows of a table or a batch, moments as numbers."""
    numbers = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return list(zip(*(column.to_pylist() for column in numbers), strict=True))


def leaves(node: Master) -> list[str]:
    """The days of the past that are in the table."""
    return node.column(
        "select relname::text from pg_class where relname ~ '^job_.*_20200101$' order by 1"
    )
