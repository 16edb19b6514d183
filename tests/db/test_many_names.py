"""Very many names, which a login that may only enqueue can make: every list stays short."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.dashboards import served
from tests.db.masters import master
from tests.fixtures.databases import Templates, fresh_database
from tests.waiting import within
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.metrics.families import installation_families
from txqueue.node.operators import MOST_LISTED
from txqueue.policy.findings.status import living_first
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads import queue_state
from txqueue.store.reads.metrics import about_installation
from txqueue.store.reads.queue_state import LARGEST
from txqueue.web.pages.routes import MENU

NAMES = 5_000
LONG = "x" * 190
FEW_BYTES = 500_000
COPIES = f"""
    insert into txqueue.job
    select (jsonb_populate_record(job, jsonb_build_object(
               'job_id', nextval('txqueue.job_id'), 'queue', 'q' || number || '{LONG}',
               'work_type', 't' || number || '{LONG}', 'tenant', 'n' || number || '{LONG}'))).*
      from txqueue.job, generate_series(1, {NAMES}) as number
"""


@pytest.fixture(scope="module")
def crowd(dsn18: str, templates: Templates) -> Iterator[str]:
    """A database with a job in each of very many queues, of as many types and tenants."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        with master(dsn) as node:
            node.enqueue({"tenant": "acme"})
            node.cursor.execute(COPIES)
        yield dsn


@pytest.fixture(scope="module")
def served_crowd(dsn18: str, templates: Templates) -> Iterator[str]:
    """The same with a node that serves all of these queues, and one that has its own version."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        with master(dsn) as node, master(dsn, "other") as other:
            node.enqueue({"tenant": "acme"})
            node.cursor.execute(COPIES)
            for each, version in ((node, "1a"), (other, "2b")):
                each.reports(applications=[version], workers=4)
            node.cursor.execute(
                "update txqueue.node_info set lease = '1 h', queues = array("
                " select distinct queue from txqueue.job order by 1), work_types = array("
                " select distinct work_type from txqueue.job order by 1)"
            )
        yield dsn


@pytest.mark.parametrize("path", ["/", "/queues", "/nodes", "/nodes/node?name=node"])
async def test_pages_of_a_node_of_very_many_queues_are_readable(
    served_crowd: str, path: str
) -> None:
    """In the time and size of others; they say why jobs wait as far as the time goes."""
    async with served(served_crowd) as browser:
        answer = await within(30, browser.get(path))
    assert answer.status == 200, answer.text
    assert len(answer.text) < FEW_BYTES
    assert "no live node serves" not in answer.text.lower()


@pytest.mark.slow("txqueue/cli", "txqueue/policy/blockers")
def test_commands_about_a_node_of_very_many_queues_print_few_lines(
    served_crowd: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its queues are cut short, too."""
    for name in ("status", "nodes"):
        assert run(["--dsn", served_crowd, name], GlobalOptions()) == 0
        assert len(capsys.readouterr().out) < 2 * FEW_BYTES


@pytest.fixture
def found(crowd: str) -> Callable[[Any], Any]:
    """Run an inquiry; returns its result."""

    def call(inquiry: Any) -> Any:
        with Session(crowd) as session:
            return session.find(inquiry)

    return call


@pytest.mark.parametrize("path", MENU.titles)
async def test_each_page_stays_short(crowd: str, path: str) -> None:
    """It shows some rows, and says how many more there are or leads to the next page."""
    async with served(crowd) as browser:
        answer = await browser.get(path)
    assert answer.status == 200, answer.text
    assert len(answer.text) < FEW_BYTES
    if path == "/":
        assert re.search(r"and 4,9\d\d more <a", answer.text)
    if path == "/queues":
        assert "Next page" in answer.text


def test_the_status_is_short_and_counts_all_jobs(found: Callable[[Any], Any]) -> None:
    """The largest queues, those that nodes serve, and all others together."""
    status = found(queue_state.about_all("txqueue"))
    others = status["other_queues"]
    assert len(status["queues"]) <= LARGEST + 1
    assert "default" in [each["queue"] for each in status["queues"]]
    listed = [each for each in status["queues"] if each["ready"] + each["waiting"]]
    assert others["names"] + len(listed) >= NAMES
    jobs = sum(each["ready"] + each["waiting"] for each in [*listed, others])
    assert jobs == NAMES + 1
    assert len(status["warnings"]) < 100
    assert "smaller classes do not count" in status["blocked_left_out"][0]
    assert len(json.dumps(status, default=str)) < FEW_BYTES


def test_queues_come_page_by_page(found: Callable[[Any], Any]) -> None:
    """By name, each once; no page reads more rows than it has."""
    names: list[str] = []
    while page := found(
        queue_state.about_queues("txqueue", names[-1] if names else None, MOST_LISTED)
    ):
        assert len(page) <= MOST_LISTED
        names += [each["queue"] for each in page]
    assert names == sorted(set(names))
    assert len(names) >= NAMES


def test_what_ended_long_ago_leaves_the_list_of_nodes_first(
    dsn18: str, templates: Templates
) -> None:
    """Of thousands of ended pods the latest are kept beside all that run, and shown behind them."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn, master(dsn, "zulu") as node:
        node.cursor.execute(
            "insert into txqueue.node_info (name, hostname, pid, incarnation, lease, capacity,"
            " queues, work_types, state, started_at, heartbeat_at, report)"
            " select 'pod-' || to_char(number, 'FM00000'), 'h', 7, -number, '10 s', 9, '{default}',"
            " '{}', case when number % 2 = 0 then 'stopped' else 'dead' end, 'epoch',"
            " now() - number * interval '1 minute',"
            """ '{"login": "dropped", "role": "dropped"}' from generate_series(1, 4000) as number"""
        )
        with Session(dsn) as session:
            pages: list[list[dict[str, Any]]] = [[]]
            while page := session.find(
                queue_state.about_nodes(
                    "txqueue", pages[-1][-1]["name"] if pages[-1] else None, MOST_LISTED
                )
            ):
                pages.append(page)
        listed = living_first(each for page in pages for each in page)
        assert [each["name"] for each in listed] == [
            "zulu",
            *(f"pod-{number:05}" for number in range(1, 1000)),
        ]
        assert "does not exist" in listed[1]["lacking_right"]
        assert listed[2]["lacking_right"] is None


def test_roles_of_ended_nodes_are_looked_at_once(dsn18: str, templates: Templates) -> None:
    """However many nodes had the same one."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn, master(dsn) as node:
        node.cursor.execute(
            "insert into txqueue.node_info (name, hostname, pid, incarnation, lease, capacity,"
            " queues, work_types, state, heartbeat_at, report)"
            " select 'pod-' || number, 'h', 7, -number, '10 s', 9, '{}', '{}', 'dead', 'epoch',"
            """ '{"login": "dropped", "role": "dropped"}' from generate_series(1, 500) as number"""
        )
        node.cursor.execute("set track_functions = 'all'")
        assert len(node.column("select lacking_right from txqueue.node_status")) == 501
        node.value("select pg_stat_force_next_flush()")
        calls = "select calls from pg_stat_user_functions where funcname = 'lacking_right'"
        # That of the node that runs, and that of the others.
        assert node.value(calls) == 2


def test_metrics_have_a_bounded_number_of_series(found: Callable[[Any], Any]) -> None:
    """What has no series of its own is in the series of all others."""
    installation = found(about_installation("txqueue"))
    assert len(installation.queues) <= LARGEST + 1
    families = {each.name: each for each in installation_families(installation)}
    samples = families["txqueue_queue_jobs"].samples
    assert len(samples) <= 4 * (LARGEST + 1)
    assert sum(each.value for each in samples) == NAMES + 1


def test_work_types_are_bounded(found: Callable[[Any], Any]) -> None:
    """Like queues."""
    types, others = found(queue_state.about_work_types("txqueue"))
    assert len(types) + others.names >= NAMES
    assert len(types) <= LARGEST + 10


def test_commands_print_few_lines(crowd: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And say how many more there are."""
    for words in (("status",), ("tenants",), ("limits",), ("worksets",), ("nodes",)):
        assert run(["--dsn", crowd, *words], GlobalOptions()) == 0
        assert len(capsys.readouterr().out) < FEW_BYTES
    run(["--dsn", crowd, "status"], GlobalOptions())
    assert "queues with fewer jobs" in " ".join(capsys.readouterr().out.split())
