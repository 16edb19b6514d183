"""A program written for procrastinate, moved by the page, comes to the same on a real node."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.docs.markdown import ROOT
from tests.docs.moved import EXAMPLES, LEDGER, await_true, lines_of, unknown_snippets
from tests.docs.session import Session
from tests.docs.test_examples import READY, run_sql, statements

PROGRAMS: Final = EXAMPLES / "from-procrastinate"
PAGE: Final = ROOT / "docs" / "howto" / "move-from-procrastinate.md"
PERIODIC: Final = ("cleaned up", "digest of 2")
SUBSCRIBERS: Final = "create table subscriber (name text)"
NODE: Final = "exec twistd -n --pidfile= txqueue --app newsletter --queues default,bulk --workers 1"
# What procrastinate 3.10.0 writes for before/, apart from what is periodic.
MOVED: Final = 10
LINES: Final = [
    "account 5 charged 1",
    "account 5 charged 2",
    "account 5 charged 3",
    "confirm ada",
    "confirm list.csv-1",
    "confirm list.csv-2",
    "issue 1 rendered",
    "issue 1 to ada",
    "list 7 rebuilt",
    "list.csv imported by job import_file",
    "remind ada",
    "try bounce of eve",
    "try bounce of eve",
]


def test_the_page_shows_pieces_of_the_programs() -> None:
    """They run, so what the page shows does."""
    assert not unknown_snippets(PAGE, PROGRAMS)


@pytest.mark.slow("docs/howto/move-from-procrastinate.md")
def test_the_moved_program_does_what_the_old_one_did(
    migrated_database18: str, tmp_path: Path
) -> None:
    """Locks, retries, times, jobs that a job adds, schedules: all of its tasks."""
    pytest.importorskip("psycopg")
    shutil.copytree(PROGRAMS / "after", tmp_path, dirs_exist_ok=True)
    run_sql(migrated_database18, LEDGER, SUBSCRIBERS)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.run("python subscribe.py")
        session.start("node", NODE, READY)
        session.run("txqueue schedule run-now digest")
        await_ended(migrated_database18, 2)
    assert written(migrated_database18) == LINES
    periodic = set(lines_of(migrated_database18)) - set(LINES)
    assert len(periodic) == len(PERIODIC), periodic
    assert failed(migrated_database18) == [("mails:bounce", 2)]


@pytest.mark.slow("docs/howto/move-from-procrastinate.md")
def test_waiting_jobs_are_moved_by_one_statement(migrated_database18: str, tmp_path: Path) -> None:
    """What the old program has deferred, nodes run; each job is moved once."""
    for package in ("psycopg", "procrastinate"):
        pytest.importorskip(package)
    before, after = tmp_path / "before", tmp_path / "after"
    shutil.copytree(PROGRAMS, tmp_path, dirs_exist_ok=True)
    run_sql(migrated_database18, LEDGER, SUBSCRIBERS)
    environment = {"TXQUEUE_DSN": migrated_database18}
    with Session(before, environment) as session:
        session.run("PYTHONPATH=. procrastinate --app newsletter.app schema --apply")
        session.run("python subscribe.py")
    [move] = statements(PAGE)
    with Session(after, environment) as session:
        session.start("node", NODE, READY)
        assert len(run_sql(migrated_database18, move)) == MOVED
        assert run_sql(migrated_database18, move) == []
        await_ended(migrated_database18, 1)
    assert written(migrated_database18) == LINES
    assert failed(migrated_database18) == [("mails:bounce", 2)]
    left = "select distinct status::text from procrastinate_jobs"
    assert run_sql(migrated_database18, left) == [("cancelled",)]


def await_ended(dsn: str, periodic: int) -> None:
    """Wait for the last job of the program, and of what it has added."""
    await_true(dsn, f"select count(distinct line) >= {len({*LINES}) + periodic} from ledger")
    await_true(
        dsn,
        """select bool_and(state in ('done', 'failed', 'cancelled')) from txqueue.job
            where work_type <> 'clean_up'""",
    )


def written(dsn: str) -> list[str]:
    """What the program has written, without what is periodic."""
    return [line for line in lines_of(dsn) if not line.startswith(PERIODIC)]


def failed(dsn: str) -> list[tuple[str, int]]:
    """The types and attempts of failed jobs."""
    return run_sql(dsn, "select work_type, attempt from txqueue.job where state = 'failed'")
