"""What a process that only enqueues has to import: work items, and no part of Twisted."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
from twisted.internet import task

import txqueue

HEAVY: Final = {
    *("twisted", "zope", "psycopg2", "txpostgres", "cryptography", "importlib.resources"),
    "pydantic",
}
WORK: Final = """
from attrs import define
from txqueue import Cron, Key, Parents, Priority, Retry, RunningJob, Runtime, WorkItem
from txqueue import on_failure, task
from txqueue.errors import Refused

@define
class Mail(WorkItem):
    '''Mail a user.'''
    user: int
    group = Key("user:{user}")
    retry = Retry(attempts=3)
    schedule = Cron("0 4 * * *")

    async def perform(self, job: RunningJob) -> None:
        '''Do nothing.'''

@task(queue="mail")
async def welcome(user: int) -> None:
    '''Do nothing.'''
"""
REPORT: Final = """
import json, sys
for name in {names!r}:
    __import__(name)
print(json.dumps(sorted(sys.modules)))
"""
PROJECT: Final = """
from importlib.util import find_spec

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["txqueue.django"],
    TASKS={"default": {"BACKEND": "txqueue.django.TxqueueBackend"}},
)
django.setup()
if find_spec("django.tasks"):
    from django.tasks import task
else:
    from django_tasks import task

@task
def welcome(user):
    return user
"""
DRIVERS: Final = {
    "psycopg2": ("psycopg2.extensions",),
    "sqlalchemy": ("sqlalchemy.orm",),
    "django": ("asgiref.sync", "django.db"),
}
"""What else of a driver its adapter is for."""
MODULES: Final = 180
"""How many modules these may add to those of Python's start; with Twisted there are over 500."""


def imported(folder: Path, *names: str) -> set[str]:
    """Import modules in a process of its own; return the names of all that this has loaded."""
    (folder / "mails.py").write_text(WORK)
    found = subprocess.run(
        [sys.executable, "-c", REPORT.format(names=names)],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return set(json.loads(found.stdout))


def test_work_items_are_light(tmp_path: Path) -> None:
    """A module of work items loads neither Twisted nor a driver, and few other modules."""
    loaded = imported(tmp_path, "mails")
    assert HEAVY & loaded == set()
    assert len(loaded - imported(tmp_path)) < MODULES


@pytest.mark.parametrize("name", ["psycopg2", "psycopg", "asyncpg", "sqlalchemy", "django"])
def test_an_adapter_is_light(tmp_path: Path, name: str) -> None:
    """Beyond work items and its driver it loads no part of Twisted, nor another driver."""
    pytest.importorskip(name)
    before = imported(tmp_path, "mails", name, *DRIVERS.get(name, ()))
    loaded = imported(tmp_path, "mails", f"txqueue.adapters.{name}") - before
    assert {each.partition(".")[0] for each in loaded} <= {"txqueue"}
    assert len(loaded) < 20
    assert "sqlalchemy.ext.asyncio" not in loaded, "it needs greenlet, which may not be there"


@pytest.mark.parametrize("name", ["aio", "sync"])
def test_a_queue_without_twisted_is_light(tmp_path: Path, name: str) -> None:
    """Beyond work items, its driver and asyncio it loads nothing of others, nor the other queue."""
    pytest.importorskip("psycopg")
    before = imported(tmp_path, "mails", "psycopg", "asyncio", "tomllib", "subprocess")
    loaded = imported(tmp_path, "mails", f"txqueue.{name}") - before
    other = {"aio": "sync", "sync": "aio"}[name]
    assert {each.partition(".")[0] for each in loaded} <= {"txqueue"}
    assert len(loaded) < 45
    assert f"txqueue.{other}" not in loaded


READS: Final = """
import json, sys
from txqueue.cli.root import run
from txqueue.cli.options import GlobalOptions
code = run({words!r}, GlobalOptions())
print(json.dumps([code, sorted(sys.modules)]))
"""


@pytest.mark.parametrize("words", [["status"], ["nodes"], ["jobs"], ["failures"], ["limits"]])
def test_a_command_that_reads_is_light(tmp_path: Path, words: list[str]) -> None:
    """It imports neither Twisted nor what converts payloads, nor other commands and their needs;
    here it finds no server, and says so.
    """
    ran = subprocess.run(
        [sys.executable, "-c", READS.format(words=[*words, "--dsn", f"host={tmp_path}"])],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    code, modules = json.loads(ran.stdout)
    assert (code, "the database does not answer" in ran.stderr) == (1, True), ran.stderr
    tops = {name.partition(".")[0] for name in modules}
    assert not tops & {"twisted", "zope", "txpostgres", "cattrs", "asyncio", "email", "http"}
    assert not {"txqueue.cli.dev", "txqueue.cli.web", "txqueue.model.payload"} & set(modules)


@pytest.mark.parametrize("words", [["status"], ["nodes"]])
def test_a_command_without_jobs_loads_nothing_about_them(tmp_path: Path, words: list[str]) -> None:
    """Their classes and filters take a twentieth of the time of all imports."""
    ran = subprocess.run(
        [sys.executable, "-c", READS.format(words=[*words, "--dsn", f"host={tmp_path}"])],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    needless = {"txqueue.model.job", "txqueue.model.job_filters", "txqueue.store.reads.job_search"}
    assert all(map(find_spec, needless)), "one of these does not exist"
    assert not needless & set(json.loads(ran.stdout)[1])


def test_a_project_of_django_is_light(tmp_path: Path) -> None:
    """With the app, its checks and a task; only nodes and commands need more."""
    pytest.importorskip("django")
    (tmp_path / "project.py").write_text(PROJECT)
    loaded = imported(tmp_path, "project")
    assert {"twisted", "zope", "psycopg2", "txpostgres"} & loaded == set()
    assert "txqueue.django.checks" in loaded


def test_every_public_name_is_there() -> None:
    """Also those whose modules are imported when they are first used."""
    assert all(getattr(txqueue, name) is not None for name in txqueue.__all__)
    assert set(txqueue.__all__) <= set(dir(txqueue))


def test_twisted_s_module_task_outlives_an_import_of_all_names() -> None:
    """The decorator of the same name is imported by its name."""
    names: dict[str, Any] = {}
    exec("from twisted.internet import task\nfrom txqueue import *", names)
    assert names["task"] is task
    assert names["WorkItem"] is txqueue.WorkItem
    assert "task" in dir(txqueue)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="module 'txqueue' has no attribute 'Queue'"):
        _ = txqueue.Queue  # type: ignore[attr-defined]


NEEDLESS: Final = {
    "txqueue.tap": {
        *("txqueue.web", "txqueue.cli", "txqueue.metrics", "txqueue.health", "txqueue.demo"),
        *("txqueue.archive", "txqueue.embedded", "txqueue.worker.running", "txqueue.client.queue"),
    },
    "txqueue.worker.__main__": {
        *("txqueue.node", "txqueue.client", "txqueue.web", "txqueue.cli", "txqueue.wire.endpoints"),
        *("txqueue.wire.tls", "txqueue.tap", "txqueue.admin", "txqueue.policy.findings"),
        *("twisted.internet.endpoints", "twisted.application", "twisted.plugin"),
    },
}
"""What a node's processes do not import without the option that needs it, and a worker never."""
LIBRARIES: Final = {
    *("click", "rich", "jinja2", "pyarrow", "prometheus_client", "psycopg", "django"),
    *("opentelemetry", "sqlalchemy", "asyncpg"),
}


@pytest.mark.parametrize("program", NEEDLESS)
def test_a_nodes_process_imports_nothing_for_other_programs(tmp_path: Path, program: str) -> None:
    """Each module stays in memory in each process of each node."""
    modules = imported(tmp_path, program)
    assert all(map(find_spec, NEEDLESS[program])), "one of these does not exist"
    needless = NEEDLESS[program] | LIBRARIES | {"twisted.web", "twisted.mail", "twisted.conch"}
    assert {name for name in needless if name in modules} == set()


@pytest.mark.parametrize("package", ["txqueue.aio", "txqueue.sync"])
@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("raise ModuleNotFoundError('no module', name='psycopg')", "'txqueue[psycopg]'"),
        ("raise ImportError('no pq wrapper available.')", "'psycopg[binary]'"),
        ("raise ImportError('of its own')", "ImportError: of its own"),
    ],
)
def test_a_queue_without_psycopg_says_what_to_install(
    package: str, text: str, remedy: str, tmp_path: Path
) -> None:
    """Without the driver, or without the library of PostgreSQL that the driver needs."""
    (tmp_path / "psycopg.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", f"import {package}"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert remedy in done.stderr.splitlines()[-1], done.stderr
