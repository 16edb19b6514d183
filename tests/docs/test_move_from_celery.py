"""A program written for Celery, moved by the page, comes to the same on a real node."""

import json
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.docs.markdown import ROOT
from tests.docs.moved import EXAMPLES, LEDGER, await_true, lines_of, unknown_snippets
from tests.docs.session import Session
from tests.docs.test_examples import READY, run_sql

PROGRAM: Final = EXAMPLES / "from-celery" / "after"
NODE: Final = (
    "exec twistd -n --pidfile= txqueue --app shop --queues default,pictures,stock,slow --workers 1"
)
MONDAY: Final = """add monday-mail shop.monday_mail '{"edition": "short"}' \
    --cron '30 8 * * mon' --tz Europe/Berlin"""
SCHEDULES: Final = ("monday-mail", "shop.close_day", "shop.sweep_carts")
SCHEDULED: Final = {"carts swept", "day closed", "monday mail short"}
# What Celery 5.7.0 writes for before/, apart from what is scheduled, and gives as results.
LINES: Final = [
    "best price Tea Co",
    "charged 7 250",
    "failed shop.charge_voucher: the voucher of order 8 is used up",
    "failed shop.export_invoices: no such month",
    "index given up",
    "invoices May",
    "published 2 rows in Berlin",
    "receipt 7",
    "refund after the voucher of order 8 is used up",
    "remind 1",
    "stock cup",
    "stock pot",
    "try welcome 1",
    "try welcome 1",
    "try welcome 1",
    "warehouse 7",
    "welcome 1 de",
]
RESULTS: Final = {
    "best": ["Tea Co"],
    "pictures": ["cup@100", "cup@200"],
    "count": [2],
    "index": ["given up"],
}
BROKER: Final = """
broker_url = "filesystem://"
broker_transport_options = {
    "data_folder_in": "messages", "data_folder_out": "messages", "control_folder": "control"
}
"""
OLD: Final = """
from bridge import app

for _ in range(2):
    app.send_task("shop.send_welcome", (1,), {"language": "de"}, task_id="7")
app.send_task("shop.remind", (2,))
"""


def test_the_page_shows_pieces_of_the_programs() -> None:
    """They run, so what the page shows does."""
    assert not unknown_snippets(ROOT / "docs/howto/move-from-celery.md", PROGRAM.parent)


@pytest.mark.slow("docs/howto/move-from-celery.md")
def test_the_moved_program_does_what_the_old_one_did(
    migrated_database18: str, tmp_path: Path
) -> None:
    """Retries, times, results, follow-up work, schedules: all of its tasks."""
    dsn = migrated_database18
    shutil.copytree(PROGRAM, tmp_path, dirs_exist_ok=True)
    run_sql(dsn, LEDGER)
    with Session(tmp_path, {"TXQUEUE_DSN": dsn}) as session:
        jobs: dict[str, list[int]] = json.loads(session.run("python place.py"))
        await_true(dsn, "select now() > not_after from txqueue.job where not_after is not null")
        session.start("node", NODE, READY)
        session.run(f"txqueue cancel {jobs['unpaid'][0]}")
        for command in (MONDAY, *(f"run-now {name}" for name in SCHEDULES)):
            session.run(f"txqueue schedule {command}")
        await_true(dsn, f"select count(*) >= {len(LINES) + 3} from ledger")
        await_true(
            dsn,
            """select bool_and(state in ('done', 'failed', 'cancelled')) from txqueue.job
                where work_type <> 'shop.sweep_carts'""",
        )
    lines = lines_of(dsn)
    assert [line for line in lines if line not in SCHEDULED] == LINES
    assert set(lines) > SCHEDULED
    assert {name: results(dsn, jobs[name]) for name in RESULTS} == RESULTS
    cancelled = """select work_type, error like '%expired%' from txqueue.job
                    where state = 'cancelled' order by work_type"""
    assert run_sql(dsn, cancelled) == [("shop.cancel_unpaid", False), ("shop.flash_offer", True)]


def results(dsn: str, jobs: list[int]) -> list[object]:
    """The results of jobs, in order."""
    sql = "select result from txqueue.job where job_id = any('{%s}') order by job_id"
    return [result for (result,) in run_sql(dsn, sql % ",".join(map(str, jobs)))]


@pytest.mark.slow("docs/howto/move-from-celery.md")
def test_the_bridge_makes_a_job_of_each_message(migrated_database18: str, tmp_path: Path) -> None:
    """Also of one that the broker delivers twice."""
    pytest.importorskip("celery")
    shutil.copytree(PROGRAM, tmp_path, dirs_exist_ok=True)
    (tmp_path / "celeryconfig.py").write_text(BROKER)
    (tmp_path / "old.py").write_text(OLD)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.run("mkdir messages control && python old.py")
        session.start("bridge", "exec celery -A bridge worker -P solo -l INFO", "ready")
        # The last message, and so the others, which came before it.
        await_true(
            migrated_database18, "select bool_or(payload = '{\"user\": 2}') from txqueue.job"
        )
        found = "select work_type, payload from txqueue.job order by work_type"
        assert run_sql(migrated_database18, found) == [
            ("shop.remind", {"user": 2}),
            ("shop.send_welcome", {"user": 1, "language": "de"}),
        ]
