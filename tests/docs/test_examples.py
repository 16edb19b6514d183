"""The examples run: files are saved and commands typed as the documents say."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import psycopg2
import pytest
from attrs import evolve
from cryptography.fernet import Fernet
from psycopg2.extensions import parse_dsn

from tests.docs.markdown import ROOT, Block, blocks
from tests.docs.session import PATIENCE, Session

README: Final = ROOT / "README.md"
TUTORIAL: Final = ROOT / "docs" / "tutorial" / "first-queue.md"
HOWTO: Final = ROOT / "docs" / "howto"
ORDERS: Final = "create table orders (id bigint generated always as identity, item text)"
# A commit after which a deferred check fails.
LATE: Final = (
    "create function refuse() returns trigger language plpgsql as"
    " $$ begin raise 'refused at the commit'; end $$",
    "create constraint trigger late after insert on orders deferrable initially deferred"
    " for each row execute function refuse()",
)
ACCOUNT: Final = "create table account (id bigint, balance int); insert into account values (1, 0)"
READY: Final = "registered as node"
STATES: Final = ("waiting", "ready", "assigned", "done", "failed", "cancelled")
# An installed txqueue brings the plugin along.
PLUGIN: Final = {"PYTEST_PLUGINS": "txqueue.testing.plugin"}
# Roles belong to the server, which outlives the test.
ROLES: Final = "drop role if exists web_application, shop_node, shop_web"

# (work type, payload): (state, result); what the handlers of a document come to.
HANDLED: Final[Mapping[tuple[str, str], tuple[str, object]]] = {
    ("mail.invoice", '{"customer": "9f3d0e1c-5c0e-4b6c-9a57-0e8f6f1f7a10", "due": "2030-01-31"}'): (
        "done",
        None,
    ),
    ("mail.reminder", '{"customer": "9f3d0e1c-5c0e-4b6c-9a57-0e8f6f1f7a10"}'): ("done", None),
    ("reports.Render", '{"page": 3}'): ("done", {"pages": 3}),
    ("shipping.Ship", '{"order_id": 1}'): ("waiting", None),
    ("billing.Bill", '{"account": 1, "amount": 2}'): ("done", None),
    ("billing_thread.BillInThread", '{"account": 1, "amount": 4}'): ("done", None),
    ("billing_asyncio.BillInAsyncio", '{"account": 1, "amount": 3}'): ("done", None),
    ("mailbox.Deliver", '{"mailbox": "ada", "number": 1}'): ("done", None),
    ("mailbox.Deliver", '{"mailbox": "ada", "number": 2}'): ("done", None),
}

# The page says that these two write as its own program does.
IN_RUNTIMES: Final = {
    "billing_thread": """from attrs import define
from txqueue import Runtime, ThreadJob, WorkItem


@define
class BillInThread(WorkItem):
    account: int
    amount: int
    runtime = Runtime.THREAD

    def perform(self, job: ThreadJob) -> None:
        with job.transaction() as txn:
            txn.execute(
                "update account set balance = balance + %s where id = %s",
                [self.amount, self.account],
            )
""",
    "billing_asyncio": """import asyncio

from attrs import define
from txqueue import RunningJob, Runtime, WorkItem


@define
class BillInAsyncio(WorkItem):
    account: int
    amount: int
    runtime = Runtime.ASYNCIO

    async def perform(self, job: RunningJob) -> None:
        await asyncio.sleep(0.01)
        async with job.transaction() as txn:
            await txn.execute(
                "update account set balance = balance + %s where id = %s",
                [self.amount, self.account],
            )
""",
}

# Django 6.0 has what is a package for earlier ones.
_CHANGES_OF_TASKS: Final[Mapping[str, str]] = (
    {"django.tasks": "django_tasks", '+= ["orders"': '+= ["django_tasks", "orders"'}
    if find_spec("django_tasks") is not None
    else {}
)


def _changed(block: Block, changes: Mapping[str, str]) -> Block:
    """Return a block with other texts in it."""
    text = block.text
    for old, new in changes.items():
        text = text.replace(old, new)
    return evolve(block, text=text)


def run_sql(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements, each in a transaction of its own; returns the rows of the last."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def statements(document: Path) -> Iterator[str]:
    """Find the SQL of a document that is meant to run."""
    for block in blocks(document):
        is_for_readers = block.action == "not run" or block.text.startswith("-- not run")
        if block.language == "sql" and not is_for_readers:
            yield block.text


def files(document: Path) -> list[Block]:
    """Find the files of a document."""
    return [block for block in blocks(document) if block.action == "file"]


def test_the_readme_runs(migrated_database18: str, tmp_path: Path) -> None:
    """From two files to a receipt, on a server that is there."""
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(blocks(README))
    [(state, item)] = run_sql(
        migrated_database18, "select state, item from txqueue.job cross join orders where id = 1"
    )
    assert (state, item) == ("done", "tea")


@pytest.mark.slow("docs/howto/django.md")
def test_a_project_of_django_runs(migrated_database18: str, tmp_path: Path) -> None:
    """With its node and its tests, by the tasks that this version of Django has."""
    pytest.importorskip("django")
    parts = parse_dsn(migrated_database18)
    environment = {
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "TXQUEUE_DSN": migrated_database18,
        "PGHOST": parts["host"],
        "PGPORT": parts.get("port", "5432"),
        "PGUSER": parts["user"],
    }
    changes = {'"shop"': f'"{parts["dbname"]}"', **_CHANGES_OF_TASKS}
    with Session(tmp_path, environment) as session:
        session.follow(_changed(block, changes) for block in blocks(HOWTO / "django.md"))


@pytest.mark.slow("docs/tutorial")
def test_the_tutorial_runs(dsn18: str, tmp_path: Path) -> None:
    """From nothing to a stopped node, a schedule and a test, with a server of its own."""
    with Session(tmp_path, {"TXQUEUE_TEST_SERVER": dsn18, **PLUGIN}) as session:
        session.follow(blocks(TUTORIAL))


def test_existing_txpostgres_code_can_enqueue(migrated_database18: str, tmp_path: Path) -> None:
    """In an interaction of its own pool."""
    run_sql(migrated_database18, ORDERS)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow([*files(README), *blocks(HOWTO / "existing-txpostgres-code.md")])
    assert run_sql(migrated_database18, "select priority, payload from txqueue.job") == [
        (7, {"order_id": 1})
    ]


def test_each_driver_enqueues_without_twisted(migrated_database18: str, tmp_path: Path) -> None:
    """With the programs of the page, each in its own transaction."""
    for name in ("psycopg", "asyncpg", "greenlet", "sqlalchemy"):
        pytest.importorskip(name)
    run_sql(migrated_database18, ORDERS)
    parts = parse_dsn(migrated_database18)
    place = urlencode({name: parts[name] for name in ("user", "host", "port")})
    environment = {
        "TXQUEUE_DSN": migrated_database18,
        "TXQUEUE_URL": f"postgresql:///{parts['dbname']}?{place}",
    }
    page = HOWTO / "enqueue-from-any-driver.md"
    programs = [each.name for each in files(page) if each.name.startswith("with_")]
    with Session(tmp_path, environment) as session:
        session.follow(files(page))
        for program in programs:
            session.run(f"python {program}")
    sql = "select payload ->> 'order_id', priority from txqueue.job order by job_id"
    assert run_sql(migrated_database18, sql) == [("1", 7), ("2", 4), ("3", 4)]


def test_queues_work_without_twisted(migrated_database18: str, tmp_path: Path) -> None:
    """Each program of the page enqueues with its row, and gets the result."""
    pytest.importorskip("psycopg")
    run_sql(migrated_database18, ORDERS)
    page = HOWTO / "without-twisted.md"
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(files(page))
        session.start("node", "exec twistd -n --pidfile= txqueue --app pictures --workers 1", READY)
        for number, program in enumerate(("with_aio.py", "with_sync.py"), 1):
            result = f"{{'order': {number}, 'pixels': 4096}}"
            assert result in session.run(f"python {program}")


def test_fastapi_enqueues_and_awaits_results(migrated_database18: str, tmp_path: Path) -> None:
    """A refused request leaves neither a row nor a job, and a commit that fails is no success."""
    for name in ("psycopg", "fastapi", "uvicorn"):
        pytest.importorskip(name)
    run_sql(migrated_database18, ORDERS)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(blocks(HOWTO / "fastapi.md"))
        for path, status in (("orders?item=", 422), ("jobs/99", 404), ("orders?item=late", 500)):
            if status == 500:
                run_sql(migrated_database18, *LATE)
            assert posted(f"http://127.0.0.1:8472/{path}") == status
    assert run_sql(migrated_database18, "select item from orders") == [("tea",)]
    assert run_sql(migrated_database18, "select count(*) from txqueue.job") == [(1,)]


def posted(url: str) -> int:
    """Return the status of an answer; jobs are read, all else is posted."""
    try:
        with urlopen(url, None if "/jobs/" in url else b"") as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


@pytest.mark.slow("docs/howto/join-a-node.md")
def test_an_application_joins_a_node(migrated_database18: str, tmp_path: Path) -> None:
    """And its job is performed."""
    run_sql(migrated_database18, ORDERS)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow([*files(README), *blocks(HOWTO / "join-a-node.md")])
    assert run_sql(migrated_database18, "select state from txqueue.job") == [("done",)]


@pytest.mark.slow("docs/howto/in-an-application.md")
def test_a_long_running_application_enqueues(migrated_database18: str, tmp_path: Path) -> None:
    """A service holds its queue, a request enqueues, and all of it stops in order."""
    run_sql(migrated_database18, ORDERS)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow([*files(README), *blocks(HOWTO / "in-an-application.md")])
    sql = "select item, payload from orders cross join txqueue.job"
    assert run_sql(migrated_database18, sql) == [("tea", {"order_id": 1})]


@pytest.mark.slow("docs/howto/test-handlers.md")
def test_jobs_are_tested(dsn18: str, tmp_path: Path) -> None:
    """Alone, in a transaction, and with a node."""
    # An installed txqueue brings the plugin along.
    plugin = {"PYTEST_PLUGINS": "txqueue.testing.plugin"}
    with Session(tmp_path, {"TXQUEUE_TEST_SERVER": dsn18, **plugin}) as session:
        session.follow(blocks(HOWTO / "test-handlers.md"))


@pytest.mark.parametrize(
    "name", ["enqueue-from-sql.md", "prepare-the-database.md", "run-in-containers.md"]
)
def test_the_sql_of_a_howto_runs(migrated_database18: str, name: str) -> None:
    """Statement by statement, as the owner."""
    try:
        run_sql(migrated_database18, *statements(HOWTO / name))
    finally:
        run_sql(migrated_database18, ROLES)


def test_sql_gets_the_keys_that_a_class_declares(migrated_database18: str, tmp_path: Path) -> None:
    """Once a node has published the class."""
    page = HOWTO / "enqueue-from-sql.md"
    calls = [sql for sql in statements(page) if "parcels" in sql]
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(files(page))
        session.start("node", "exec twistd -n --pidfile= txqueue --app parcels --workers 1", READY)
        for runs, call in enumerate(calls, 1):
            run_sql(migrated_database18, call)
            _await_runs(migrated_database18, runs)
    keys = "select \"group\", options ->> 'unique', result from txqueue.job"
    made = ("customer:7", "parcel 1", "sent to customer 7")
    assert run_sql(migrated_database18, keys) == [made, made]


def test_encrypted_work_runs(migrated_database18: str, tmp_path: Path) -> None:
    """As the page says, and nothing of it is in the database."""
    key = {"TXQUEUE_PAYLOAD_KEY": Fernet.generate_key().decode()}
    page = HOWTO / "encrypt-payloads.md"
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18, **key}) as session:
        session.follow(files(page))
        session.start("node", "exec twistd -n --pidfile= txqueue --app charges --workers 1", READY)
        session.follow([each for each in blocks(page) if each.action == ""])
    [(row,)] = run_sql(migrated_database18, "select job::text from txqueue.job as job")
    assert "4111 1111" not in row


def test_the_handlers_run(migrated_database18: str, tmp_path: Path) -> None:
    """Each as the page says."""
    run_sql(migrated_database18, ACCOUNT)
    others = [Block("python", "file", f"{name}.py", text) for name, text in IN_RUNTIMES.items()]
    sources = [*files(HOWTO / "write-handlers.md"), *others]
    apps = " ".join(f"--app {Path(block.name).stem}" for block in sources)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(sources)
        command = f"exec twistd -n --pidfile= txqueue {apps} --workers 1"
        session.start("node", command, READY)
        for work_type, payload in HANDLED:
            run_sql(
                migrated_database18,
                f"select txqueue.enqueue('{work_type}', '{payload}', queue => 'default')",
            )
        ended = _await_runs(migrated_database18, len(HANDLED) + 1)
    assert ended.pop(("billing.Notify", '{"account": 1}')) == ("done", None)
    assert ended == {(kind, _plain(payload)): how for (kind, payload), how in HANDLED.items()}
    assert run_sql(migrated_database18, "select balance from account") == [(9,)]


def test_functions_run_as_work(migrated_database18: str, tmp_path: Path) -> None:
    """With middleware; each is enqueued by its own call."""
    page = HOWTO / "functions-as-work.md"
    apps = "--app letters --app around --queues default,mail"
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(blocks(page))
        session.start("node", f"exec twistd -n --pidfile= txqueue {apps} --workers 1", READY)
        _await_runs(migrated_database18, 2)
    sql = 'select work_type, queue, priority, "group", result from txqueue.job order by job_id'
    assert run_sql(migrated_database18, sql) == [
        ("letters.send_welcome", "mail", 7, "user:7", "welcome in de to user 7"),
        ("letters.report", "default", 4, None, "report of May, run 1"),
    ]


def test_queues_are_looked_after(migrated_database18: str, tmp_path: Path) -> None:
    """From the command line, and with `Admin`."""
    page = HOWTO / "administer.md"
    # Each command is typed in a shell of its own, to which no export comes.
    environment = {"TXQUEUE_DSN": migrated_database18, "TXQUEUE_NODE": "unix:shop.sock"}
    with Session(tmp_path, environment) as session:
        session.follow(blocks(page))
    acts = run_sql(migrated_database18, "select what from txqueue.action order by action_id")
    assert [what for (what,) in acts].count("pause") == 2


@pytest.mark.slow("docs/howto/troubleshoot.md")
def test_symptoms_lead_to_remedies(migrated_database18: str, tmp_path: Path) -> None:
    """Each command prints what the page shows, and the sizes are those of all partitions."""
    page = HOWTO / "troubleshoot.md"
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(blocks(page))
    [sizes] = statements(page)
    parts = {part for part, _ in run_sql(migrated_database18, sizes)}
    assert parts == {f"txqueue.job_{state}" for state in STATES}


@pytest.mark.slow("docs/howto/look-back.md")
def test_one_looks_back(migrated_database18: str, tmp_path: Path) -> None:
    """At failures by kind, and at history; the SQL of the page is valid too."""
    page = HOWTO / "look-back.md"
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow([each for each in blocks(page) if each.language != "sql"])
    run_sql(migrated_database18, *statements(page))
    assert run_sql(migrated_database18, "select archive from txqueue.setting") == [
        ("/var/lib/shop/history",)
    ]
    acts = run_sql(migrated_database18, "select what from txqueue.action order by action_id")
    assert acts == [("postpone",), ("retry",)]


@pytest.mark.slow("docs/howto/recurring-work.md")
def test_work_recurs(migrated_database18: str, tmp_path: Path) -> None:
    """Declared on its class, made at run time, only for what is active."""
    page = HOWTO / "recurring-work.md"
    run_sql(migrated_database18, *statements(page))
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(blocks(page))
    made = run_sql(
        migrated_database18,
        "select name, is_declared, is_active from txqueue.schedule order by name",
    )
    assert made == [
        ("orders 1", False, True),
        ("orders 2", False, True),
        ("shipments 1", False, False),
        ("sync.cleanup", True, True),
        ("sync.report", True, True),
    ]


@pytest.mark.slow("docs/howto/large-sets.md")
def test_large_sets_are_worked_through(migrated_database18: str, tmp_path: Path) -> None:
    """A workset with a table of its own, and one over a table of the application."""
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(blocks(HOWTO / "large-sets.md"))
    assert run_sql(migrated_database18, "select count(*), count(distinct customer) from sent") == [
        (4999, 4999)
    ]


def _await_runs(dsn: str, jobs: int) -> dict[tuple[str, str], tuple[str, object]]:
    """Wait until each job has been run once; returns how each ended."""
    deadline = time.monotonic() + PATIENCE
    while True:
        rows = run_sql(
            dsn,
            "select work_type, payload, state, result from txqueue.job"
            " where state not in ('ready', 'assigned') and coalesce(waiting_for, 'time') = 'time'",
        )
        if len(rows) == jobs or time.monotonic() > deadline:
            return {(row[0], json.dumps(row[1], sort_keys=True)): row[2:] for row in rows}
        time.sleep(0.2)


def _plain(payload: str) -> str:
    return json.dumps(json.loads(payload), sort_keys=True)
