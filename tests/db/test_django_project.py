"""What the app adds to a project of Django: checks, migrations, a command and the admin."""

import json
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import psycopg2
import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import Client, override_settings

from tests.django_shop.configuration import set_up_django, settings_of
from tests.fixtures.databases import fresh_database
from txqueue.adapters.django import is_of_tests
from txqueue.django.checks import check_databases, check_settings, dsn_of
from txqueue.testing import (
    all_enqueued,
    assert_enqueued,
    capture_enqueued,
    clear,
    connected,
    drain,
    refute_enqueued,
)
from txqueue.testing.connections import alias_of, schemas_of

pytestmark = pytest.mark.django


@pytest.fixture
def empty(shop_database: str) -> str:
    """The DSN of the database, with no job in it."""
    return shop_database


@pytest.fixture
def bare(dsn18: str) -> Iterator[str]:
    """The DSN of a database without the schema, whose name is not one of a test of Django."""
    with fresh_database(dsn18) as dsn:
        yield dsn


@pytest.fixture(autouse=True)
def project(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project over the database, which is its own, and none of a test of Django."""
    set_up_django(empty)
    # They are declared for its queues.
    import_module("tests.django_shop.tasks")
    monkeypatch.setattr("txqueue.adapters.django._named", {"default": "shop"})


def tasks_with(**options: Any) -> Any:
    """Change the options of the only backend."""
    backend = {"BACKEND": "txqueue.django.TxqueueBackend", "OPTIONS": options}
    return override_settings(TASKS={"default": backend})


def name_of(alias: str) -> str:
    """Return the name of a database of Django."""
    return str(connections[alias].settings_dict["NAME"])


def register(cursor: Any, queue: str) -> None:
    """Register a node that serves a queue."""
    cursor.execute(
        "select incarnation from txqueue.register_node(%s, 'host', 1, null, 10, 100, %s, '[]', '',"
        " null)",
        (f"node of {queue}", [queue]),
    )


def ids(messages: list[Any]) -> list[str]:
    """The ids of messages of checks."""
    return [message.id for message in messages]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"database": "default", "schema": "jobs", "migrate": False, "dashboard": "http://x"}, []),
        ({"database": "none"}, ["txqueue.E001"]),
        ({"database": "lite"}, ["txqueue.E002"]),
        ({"databse": "default", "sceme": "x"}, ["txqueue.E003"]),
        ({"schema": "drop table"}, ["txqueue.E004"]),
        (None, []),
    ],
)
def test_wrong_settings_have_their_checks(options: Any, expected: list[str]) -> None:
    """Each says what is wrong with which backend."""
    backend = {"BACKEND": "txqueue.django.TxqueueBackend", "OPTIONS": options}
    with override_settings(TASKS={"default": backend}):
        messages = check_settings()
    assert ids(messages) == expected
    assert all("'default'" in message.msg and message.hint for message in messages)


def test_nodes_of_another_database_are_noticed(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name in their DSN."""
    monkeypatch.setenv("TXQUEUE_DSN", "dbname=other")
    with tasks_with():
        assert ids(check_settings()) == ["txqueue.W005"]
    monkeypatch.setenv("TXQUEUE_DSN", "garbage")
    with tasks_with():
        [message] = check_settings()
        assert message.id == "txqueue.W005"
        assert "DSN" in message.msg
    monkeypatch.setenv("TXQUEUE_DSN", empty)
    with tasks_with():
        assert check_settings() == []


def test_nodes_have_no_database_of_a_test(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their DSN names the real one while tests run."""
    monkeypatch.setenv("TXQUEUE_DSN", "dbname=shop")
    own = name_of("default").removeprefix("test_")
    monkeypatch.setattr("txqueue.adapters.django._named", {"default": own})
    with tasks_with():
        assert check_settings() == []


def test_queues_that_no_node_serves_are_noticed(empty: str) -> None:
    """Of a database with the schema; only where Django checks databases."""
    with tasks_with():
        assert check_databases() == []
        [message] = check_databases(databases=["default"])
    assert message.id == "txqueue.W008"
    assert "default" in message.msg


def test_queues_that_a_node_serves_are_not(bare: str) -> None:
    """Only the others of a backend."""
    from txqueue.store.schema.migrations import migrate

    migrate(bare)
    set_up_django(bare)
    backend = {"BACKEND": "txqueue.django.TxqueueBackend", "QUEUES": ["default", "mail"]}
    with connections["default"].cursor() as cursor:
        register(cursor, "default")
        with override_settings(TASKS={"default": backend}):
            [message] = check_databases(databases=["default"])
        assert message.msg.endswith("no node serves now: mail.")
        register(cursor, "mail")
        with override_settings(TASKS={"default": backend}):
            assert check_databases(databases=["default"]) == []


@pytest.mark.parametrize("granted", [(), ("txqueue_enqueue",)])
def test_a_role_without_rights_is_noticed(empty: str, granted: tuple[str, ...]) -> None:
    """With the roles that it needs."""
    with connections["default"].cursor() as cursor, tasks_with():
        cursor.execute("create role stranger_of_django")
        for role in granted:
            cursor.execute(f"grant {role} to stranger_of_django")
        cursor.execute("set role stranger_of_django")
        [message] = check_databases(databases=["default"])
        cursor.execute("reset role")
        cursor.execute("drop role stranger_of_django")
    assert message.id == "txqueue.W007"
    assert "txqueue_read" in message.hint


def test_a_database_without_the_schema_is_noticed(bare: str) -> None:
    """It does not keep `migrate` from running."""
    set_up_django(bare)
    with tasks_with():
        [message] = check_databases(databases=["default"])
    assert (message.id, message.is_serious()) == ("txqueue.W006", False)
    assert "is not in this database" in message.msg
    assert message.hint == "Run: manage.py txqueue --backend default migrate"


def test_the_same_name_on_another_server_is_noticed(
    empty: str, bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the identity of the queue."""
    from txqueue.store.schema.migrations import migrate

    migrate(bare)
    monkeypatch.setenv("TXQUEUE_DSN", bare)
    with tasks_with():
        assert "txqueue.W009" in ids(check_databases(databases=["default"]))
    monkeypatch.setenv("TXQUEUE_DSN", empty)
    with tasks_with():
        assert "txqueue.W009" not in ids(check_databases(databases=["default"]))


@pytest.mark.parametrize(
    ("options", "own", "is_made"),
    [
        ({}, "shop", False),
        ({"migrate": True}, "shop", True),
        ({}, "{}", True),
        # The project's own database may be named so, too.
        ({}, "test_{}", False),
    ],
)
def test_django_migrates_databases_of_tests(
    bare: str, monkeypatch: pytest.MonkeyPatch, options: Any, own: str, is_made: bool
) -> None:
    """Others only if they ask for it."""
    set_up_django(bare)
    named = own.format(name_of("default").removeprefix("test_"))
    monkeypatch.setattr("txqueue.adapters.django._named", {"default": named})
    with tasks_with(**options):
        call_command("migrate", verbosity=0, database="default")
    with connections["default"].cursor() as cursor:
        cursor.execute("select to_regclass('txqueue.job') is not null")
        assert cursor.fetchone() == (is_made,)


@pytest.mark.parametrize(
    ("own", "as_of_test", "kept"),
    [
        ("{}", None, 1),
        ("{}", "{}", 1),
        ("other", None, 1),
        ("shop", "{}", 0),
        ("shop", "{}_not", 1),
    ],
)
def test_a_flush_keeps_the_jobs_of_a_real_database(
    bare: str, monkeypatch: pytest.MonkeyPatch, own: str, as_of_test: str | None, kept: int
) -> None:
    """Whatever its name is; a test database of Django has none left."""
    set_up_django(bare)
    name = name_of("default")
    with tasks_with(migrate=True):
        call_command("migrate", verbosity=0, database="default")
        import_module("tests.django_shop.tasks").add.enqueue(1)
        monkeypatch.setattr("txqueue.adapters.django._named", {"default": own.format(name)})
        test = connections["default"].settings_dict["TEST"]
        monkeypatch.setitem(test, "NAME", as_of_test and as_of_test.format(name))
        call_command("flush", verbosity=0, interactive=False)
    with connections["default"].cursor() as cursor:
        cursor.execute("select count(*) from txqueue.job")
        assert cursor.fetchone() == (kept,)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shop", False),
        ("test_shop", True),
        ("test_shop_2", True),
        ("test_shop_live", False),
        ("test_live", False),
        ("special", True),
        ("special_1", True),
        ("copy", False),
    ],
)
def test_test_databases_are_those_that_django_makes(
    monkeypatch: pytest.MonkeyPatch, name: str, expected: bool
) -> None:
    """With their clones for parallel tests; no other, although its name be similar."""
    monkeypatch.setattr(
        "txqueue.adapters.django._named", {"default": "shop", "lite": "test_live", "replica": "x"}
    )
    settings = connections["default"].settings_dict
    monkeypatch.setitem(settings, "NAME", name)
    monkeypatch.setitem(connections["lite"].settings_dict["TEST"], "NAME", "special")
    assert is_of_tests("default") is expected


def test_the_command_has_the_project_s_database(
    empty: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And passes all its arguments on."""
    monkeypatch.setenv("TXQUEUE_DSN", "dbname=none")
    monkeypatch.setenv("TXQUEUE_SCHEMA", "none")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        call_command("txqueue", "enqueue", "mail.welcome", '{"user": 1}', "--json")
    assert ended.value.code == 0
    assert capfd.readouterr().out == '{"job_ids": [1], "new_ids": [1]}\n'
    assert psycopg2.extensions.parse_dsn(os.environ["TXQUEUE_DSN"])["dbname"] in empty
    with pytest.raises(CommandError, match="no such backend"):
        call_command("txqueue", "--backend", "none", "status")


@pytest.mark.parametrize(
    "leading",
    [
        ["--json"],
        ["--json", "--backend", "second"],
        ["--node", "", "--json", "--no-color"],
        ["--schema", "txqueue", "--debug", "--json"],
    ],
)
def test_options_of_the_command_may_stand_before_its_name(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, leading: list[str]
) -> None:
    """Those that every command of txqueue takes, with their values."""
    monkeypatch.setenv("TXQUEUE_DSN", "dbname=none")
    monkeypatch.setenv("TXQUEUE_SCHEMA", "txqueue")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        call_command("txqueue", *leading, "jobs", "--limit", "5")
    assert ended.value.code == 0
    assert json.loads(capfd.readouterr().out)["jobs"] == []


def test_the_colours_of_django_s_option_are_the_command_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django takes that option itself."""
    calls: list[list[str]] = []
    monkeypatch.setattr("txqueue.cli.root.main", calls.append)
    monkeypatch.setenv("TXQUEUE_DSN", "dbname=none")
    monkeypatch.setenv("TXQUEUE_SCHEMA", "txqueue")
    call_command("txqueue", "--no-color", "jobs")
    assert calls == [["--no-color", "jobs"]]


def test_a_test_uses_the_database_and_schema_of_the_backend(
    bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word in the test; a schema that is passed counts more."""
    from txqueue.store.schema.migrations import migrate

    migrate(bare)
    migrate(bare, "work")
    set_up_django(bare)
    tasks = import_module("tests.django_shop.tasks")
    with tasks_with(schema="work"):
        tasks.add.enqueue(1)
        assert_enqueued(tasks.add, args=[1])
        with capture_enqueued() as captured:
            tasks.add.enqueue(2)
        assert len(captured) == len(all_enqueued(schema="txqueue", connection="default")) + 1
        assert len(drain()) == 2
        refute_enqueued()
        tasks.add.enqueue(3)
        monkeypatch.setattr("txqueue.adapters.django._named", {"default": "shop"})
        clear()
        refute_enqueued()


def test_a_test_uses_the_database_of_the_first_backend() -> None:
    """Unless another alias is named."""
    with tasks_with(database="lite", schema="work"):
        assert alias_of(None) == "lite"
        with connected("default"):
            assert alias_of(None) == "default"
        assert (schemas_of("lite"), schemas_of("default")) == (["work"], ["txqueue"])
    assert alias_of(None) == "default"


def test_a_dsn_has_what_libpq_takes(empty: str) -> None:
    """Not what only the driver of Python has."""
    changed = {**settings_of(empty)["DATABASES"]["default"], "PASSWORD": "a b'c"}
    settings = connections["default"].settings_dict
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(settings, "PASSWORD", changed["PASSWORD"])
        patch.setitem(settings, "OPTIONS", {"sslmode": "disable", "connect_timeout": 5})
        found = psycopg2.extensions.parse_dsn(dsn_of("default"))
    assert (found["password"], found["sslmode"], found["connect_timeout"]) == (
        "a b'c",
        "disable",
        "5",
    )


def test_the_admin_shows_jobs(bare: str) -> None:
    """It lists, filters and finds them, and changes none."""
    from django.contrib.auth.models import User

    set_up_django(bare)
    with tasks_with(migrate=True, dashboard="https://jobs.example/"):
        call_command("migrate", verbosity=0, database="default")
        import_module("tests.django_shop.tasks").add.enqueue(1)
        client = Client()
        client.force_login(User.objects.create_superuser("ada"))
        page = client.get("/admin/txqueue/jobrow/").content.decode()
        assert "tests.django_shop.tasks.add" in page
        assert 'href="https://jobs.example/jobs/1"' in page
        assert "/admin/txqueue/jobrow/add/" not in page
        for query, count in {
            "?q=1": 1,
            "?q=2": 0,
            "?q=none": 0,
            "?state__exact=waiting": 1,
        }.items():
            found = client.get(f"/admin/txqueue/jobrow/{query}").content.decode()
            assert found.count("https://jobs.example/jobs/1") == count
        assert (
            "tests.django_shop.tasks.add"
            in client.get("/admin/txqueue/jobrow/1/change/").content.decode()
        )
        assert client.post("/admin/txqueue/jobrow/1/change/", {}).status_code == 403
        assert client.post("/admin/txqueue/jobrow/1/delete/", {}).status_code == 403


def test_the_admin_shows_when_a_job_started() -> None:
    """The moment is that of the result, also of a run too short to be reported."""
    from django.contrib.admin import site

    from txqueue.django.admin import JobAdmin
    from txqueue.django.models import JobRow

    with transaction.atomic():
        result = import_module("tests.django_shop.tasks").fails.enqueue()
        shown = JobAdmin(JobRow, site)
        assert shown.started(JobRow.objects.get(pk=result.id)) is None
        drain(raise_errors=False)
        result.refresh()
        assert result.status == "FAILED"
        assert shown.started(JobRow.objects.get(pk=result.id)) == result.started_at is not None
        transaction.set_rollback(True)


def test_the_admin_counts_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table that may have millions of rows."""
    from txqueue.django.admin import BoundedPaginator
    from txqueue.django.models import JobRow

    monkeypatch.setattr("txqueue.django.admin.MOST", 2)
    add = import_module("tests.django_shop.tasks").add
    for number in range(3):
        add.enqueue(number)
    assert BoundedPaginator(JobRow.objects.all(), 100).count == 2
