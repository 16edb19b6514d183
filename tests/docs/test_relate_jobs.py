"""The examples of jobs that have to do with each other run as the page says."""

from pathlib import Path

from tests.docs.markdown import ROOT, blocks
from tests.docs.session import Session
from tests.docs.test_examples import run_sql, statements

PAGE = ROOT / "docs" / "howto" / "relate-jobs.md"
SHIPPED = "create table shipped (number int)"


def test_related_jobs_run(migrated_database18: str, tmp_path: Path) -> None:
    """Unique keys, stages, parents, a batch, a repeated job."""
    run_sql(migrated_database18, SHIPPED)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(blocks(PAGE))
    assert run_sql(migrated_database18, "select number from shipped") == [(7,)]
    sql = "select payload ->> 'order' from txqueue.job where work_type = 'orders.Mail' order by 1"
    assert run_sql(migrated_database18, sql) == [("7",), ("8",), ("8",)]


def test_the_sql_of_the_page_runs(migrated_database18: str) -> None:
    """Twice, and it is one job."""
    sql = list(statements(PAGE))
    assert run_sql(migrated_database18, *sql) == run_sql(migrated_database18, *sql)
