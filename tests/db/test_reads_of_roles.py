"""Each read of metrics, tools and dashboard, under each role that is documented to make it."""

import inspect
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final

import pytest
from psycopg2.extensions import make_dsn

from tests.dashboards import served
from tests.db.masters import Master
from tests.db.recurring import put
from txqueue.errors import NotPermitted
from txqueue.policy.findings.finding import Unread
from txqueue.store import inquiries, reads
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.examination.facts import examine
from txqueue.web.pages.routes import MENU

ROLES: Final = ("txqueue_read", "txqueue_worker")
SINCE, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
DAY: Final = timedelta(days=1)
CALLBACK: Final = 3
JOB: Final = {"job_id": 1, "node_id": 1, "work_type": "test.kind", "state": "done", "steps": None}
PAGES: Final = (
    *MENU.titles,
    "/jobs/1",
    "/queues/queue?name=default",
    "/types/type?name=test.kind",
    "/nodes/node?name=node",
)
# The arguments of each read after the schema; a new one needs a line here.
READS: Final[Mapping[str, Mapping[str, Any]]] = {
    "job_details.about_actions": {"before": None, "limit": 9},
    "jobs.about_awaited": {"ids": [1]},
    "jobs.about_archived_days": {"job_id": 1},
    "job_details.about_batch": {"job_id": CALLBACK},
    "queue_state.about_blocked": {},
    "dashboard.about_changes": {},
    "dashboard.about_chart": {"span": DAY, "step": DAY},
    "dashboard.about_ended": {"column": "queue", "name": "default", "spans": {"day": DAY}},
    "dashboard.about_last_hour": {},
    "dashboard.about_live_jobs": {"column": "queue", "name": "default"},
    "dashboard.about_node_jobs": {"incarnation": 1, "limit": 9},
    "dashboard.about_policy": {"work_type": "test.kind"},
    "history.about_archived": {"since": SINCE, "until": UNTIL},
    "history.about_failures": {},
    "history.about_past": {"since": SINCE, "until": UNTIL, "limit": 9, "filters": {}},
    "history.about_stats": {"since": SINCE, "until": UNTIL},
    "job_details.about_archived_job": {"job": JOB},
    "job_details.about_job": {"job_id": 1},
    "job_details.about_text": {"job_id": 1, "column": "payload"},
    "job_details.about_obstacles": {"job_id": 1},
    "job_search.about_bound": {"filters": {}},
    "job_search.about_found": {"filters": {}, "limit": 9, "is_bounded": True},
    "job_search.about_jobs": {"filters": {}, "limit": 9},
    "job_search.about_matching": {"filters": {"state": "failed"}, "most": 9},
    "jobs.about_one_job": {"job_id": 1},
    "job_search.about_known_names": {"kind": "queue", "given": "defalt"},
    "queue_state.about_live": {"nodes": [], "most": 9},
    "queue_state.about_recent": {"most": 9},
    "metrics.about_installation": {},
    "queue_state.about_all": {},
    "queue_state.about_clock": {},
    "queue_state.about_controls": {},
    "queue_state.about_identity": {},
    "queue_state.about_nodes": {},
    "queue_state.about_queues": {},
    "queue_state.about_tenants": {"limit": 9},
    "queue_state.about_work_types": {},
    "payloads.about_schemas": {},
    "payloads.about_waiting_payloads": {"work_types": ["test.kind"], "after": 0, "limit": 9},
    "schedule_list.about_scheduled_runs": {},
    "schedule_list.about_schedules": {"filters": {}, "limit": 9},
    "steps.about_relatives": {"job_id": 1, "after": [1]},
    "steps.about_archived_steps": {"job": JOB},
    "steps.about_awaited": {"job_id": 1},
    "steps.about_holder": {"work_type": "test.kind", "key": "held"},
    "steps.about_steps": {"job_id": 1},
    "schedule_list.about_workset_failures": {"name": "letters", "limit": 9},
    "schedule_list.about_worksets": {},
}


def found_reads() -> dict[str, Any]:
    """All queries of the packages of reads, by name."""
    names = [
        module.name
        for package in (reads, inquiries)
        for module in walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": function
        for module in map(import_module, names)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if name.startswith("about_") and function.__module__ == module.__name__
    }


def test_each_read_is_in_the_table() -> None:
    """So that none is added which a role may not make."""
    assert found_reads().keys() == READS.keys()


@pytest.fixture(params=ROLES)
def role(request: pytest.FixtureRequest, node: Master, dsn: str) -> str:
    """A DSN of a role, on a database that has some of all things."""
    node.enqueue({"group": "g", "tenant": "t"})
    (chunk,) = node.claim()
    node.settle(chunk, "failed", error="x")
    [held] = node.enqueue({"unique": "held"})
    assert node.enqueue({"after": [held], "after_any_end": True}) == [CALLBACK]
    node.value("select txqueue.set_limit('queue', 'default', 1, 5, 5, null, null, 'me')")
    put(node, "often")
    node.cursor.execute(
        "insert into txqueue.workset (name, work_type, job, size, batch)"
        " values ('letters', 'letters', '{}', 1, 10)"
    )
    return make_dsn(dsn, options=f"-c role={request.param}")


def test_a_role_may_make_each_read(role: str) -> None:
    """No statement needs a right that it lacks."""
    refused = {}
    with Session(role) as session:
        for name, arguments in READS.items():
            try:
                session.find(found_reads()[name]("txqueue", **arguments))
            except NotPermitted as error:
                refused[name] = error.what
    assert refused == {}


def test_the_doctor_reads_all_that_a_role_may_read(role: str) -> None:
    """What it cannot read is about the sessions of others."""
    facts = examine(role, "txqueue").items()
    unread = {name: fact.reason for name, fact in facts if isinstance(fact, Unread)}
    assert {name: why for name, why in unread.items() if "pg_read_all_stats" not in why} == {}


async def test_a_role_may_serve_each_page(role: str) -> None:
    """With all of its parts."""
    async with served(role) as browser:
        for path in PAGES:
            answer = await browser.get(path)
            assert answer.status == 200, path
            assert "permission denied" not in answer.text, path
