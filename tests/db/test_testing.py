"""`txqueue.testing` keeps its promises, and each check of them notices a deliberate bug."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg2
import pytest
from attrs import frozen

from tests.db.tested_work import Mail
from tests.db.testing_checks import CHECKS
from tests.fixtures.databases import Templates, fresh_database
from txqueue import Fail, RunningJob, task, testing
from txqueue.adapters.psycopg2 import batch, enqueue
from txqueue.errors import ConfigurationError
from txqueue.store.schema.files import functions

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def open_connection(dsn18: str, templates: Templates) -> Iterator[Any]:
    """A connection to a database with the schema, for all tests of this file."""
    with (
        fresh_database(dsn18, templates.name(dsn18)) as dsn,
        closing(psycopg2.connect(dsn)) as connection,
    ):
        yield connection


@pytest.fixture
def connection(open_connection: Any) -> Iterator[Any]:
    """The connection, in a transaction that is rolled back after the test."""
    with testing.connected(open_connection):
        yield open_connection
    open_connection.rollback()


@pytest.mark.parametrize("name", CHECKS)
def test_it_keeps_its_promises(name: str, connection: Any) -> None:
    """Each check passes."""
    CHECKS[name](connection)


@task(name="testing.sum_of_parents")
async def sum_of_parents(job: RunningJob) -> None:
    """Store the sum of what the parents have returned."""
    assert job.parents is not None
    assert job.parents.ids is not None
    async with job.transaction() as txn:
        await txn.execute(
            "insert into total select sum(result::text::int) from txqueue.job"
            " where job_id = any(%s) and state = 'done'",
            [list(job.parents.ids)],
        )


@task(name="testing.number")
def number(value: int) -> int:
    """Return a number, unless it is 13."""
    if value == 13:
        raise Fail("unlucky")
    return value


def test_a_callback_reads_the_results_of_its_parents(connection: Any) -> None:
    """By their numbers, in its own transaction."""
    connection.cursor().execute("create temporary table total (value int) on commit drop")
    with batch(connection, sum_of_parents.work()) as jobs:
        jobs.enqueue_many([number.work(value) for value in (1, 13, 30)])
    testing.drain(raise_errors=False)
    with connection.cursor() as cursor:
        cursor.execute("select value from total")
        assert cursor.fetchall() == [(31,)]


@task(name="testing.commit_elsewhere")
def commit_elsewhere(dsn: str) -> None:
    """Commit a job as another process would."""
    with closing(psycopg2.connect(dsn)) as other, other:
        enqueue(other, Mail("committed meanwhile"))


@task(name="testing.late")
async def late(job: RunningJob) -> int:
    """Return a value after the job's own transaction."""
    async with job.transaction():
        pass
    return 7


def test_a_late_result_is_stored_as_on_a_node(connection: Any) -> None:
    """In the job's row, where callers read it."""
    enqueue(connection, late.work())
    (outcome,) = testing.drain()
    assert outcome.get() == 7
    assert testing.assert_enqueued(late, state="done").result == 7


def test_a_heavy_job_runs(connection: Any) -> None:
    """Its weight is that of its assignment, too."""
    enqueue(connection, Mail("ann"), weight=5)
    assert [each.get() for each in testing.drain()] == ["sent to ann"]


def test_jobs_of_other_transactions_stay(connection: Any) -> None:
    """A drain in a transaction begins with its own jobs; with a condition, others run too."""
    with closing(psycopg2.connect(connection.dsn)) as other:
        with other:
            enqueue(other, Mail("committed before"))
        enqueue(connection, Mail("own"))
        enqueue(connection, commit_elsewhere.work(connection.dsn))
        assert [each.get() for each in testing.drain()] == ["sent to own", None]
        assert len(testing.drain(Mail)) == 2
        connection.rollback()
        with other:
            testing.clear(connection=other)


def test_the_wrong_connection_is_refused(connection: Any) -> None:
    """An object that is no connection, and a call without one."""
    with pytest.raises(TypeError, match="int is no connection"):
        testing.assert_enqueued(connection=5)


def test_a_call_without_connection_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no default either."""
    monkeypatch.delitem(sys.modules, "django.conf", raising=False)
    with pytest.raises(ConfigurationError, match="pass connection="):
        testing.drain()


@frozen
class Bug:
    """A deliberate bug: a file or stored function, the text there, its change, the check."""

    path: str
    before: str
    after: str
    check: str

    def put_in(self, source: str) -> str:
        """Return the source with the bug, which a check that fails must not hide."""
        if self.before not in source:
            raise LookupError(f"{self.path} no longer has {self.before!r}")
        return source.replace(self.before, self.after)


T: Final = "txqueue/testing/"
FIND: Final = "txqueue/store/given_jobs.py"
CLAIM: Final = "claim_given"
BUGS: Final = [
    Bug(FIND, "-> name is distinct from value)", "-> name is null)", "a_field_is_compared"),
    Bug(
        FIND,
        "(wanted -> 'defaults' || job.payload)",
        "job.payload",
        "an_omitted_default_is_compared",
    ),
    Bug(FIND, "is distinct from value::timestamptz)", "is null)", "a_moment_is_compared"),
    Bug(FIND, "order by found.job_id", "order by found.job_id desc", "the_last_job_is_returned"),
    Bug(f"{T}assertions.py", "len(found) == count", "len(found) >= count", "a_number_is_asserted"),
    Bug(
        f"{T}assertions.py",
        "await _find(session, JobSearch())",
        "[]",
        "a_failure_tells_which_jobs_there_are",
    ),
    Bug(f"{T}assertions.py", "    if found:\n", "    if not found:\n", "a_refusal_names_the_job"),
    Bug(f"{T}assertions.py", "since=self._since", "since=0", "a_capture_begins_with_its_block"),
    Bug(
        f"{T}assertions.py",
        'about.pop("state", LIVE)',
        'about.pop("state", State)',
        "ended_jobs_do_not_count",
    ),
    Bug(
        f"{T}assertions.py",
        "name not in fields and name not in _BY_COLUMN",
        "False",
        "an_unknown_name_is_refused",
    ),
    Bug(
        CLAIM,
        "ready.job_id = any (given)",
        "true",
        "a_drain_leaves_unrelated_jobs",
    ),
    Bug(CLAIM, "job_id > since", "false", "a_drain_runs_what_jobs_enqueue"),
    Bug(
        f"{T}draining.py",
        'self.ids.update(claimed["children"] or ())',
        "pass",
        "a_drain_runs_what_waits",
    ),
    Bug(CLAIM, "not_before <= due", "true", "a_drain_follows_time"),
    Bug(
        f"{T}draining.py", "settled.delay + ahead", "settled.delay", "a_retry_is_due_after_its_run"
    ),
    Bug(f"{T}draining.py", "time.monotonic() - ahead", "time.monotonic()", "a_job_expires_in_time"),
    Bug(f"{T}draining.py", ">= self.terms.limit", "> 2 * self.terms.limit", "a_drain_ends"),
    Bug(f"{T}draining.py", "given.leave(node[1])", "given.moment(0)", "a_drain_ends"),
    Bug(f"{T}draining.py", "        _raise(ending)", "        pass", "the_first_error_is_raised"),
    Bug(
        f"{T}draining.py",
        'outcome.kind in ("unread", "failed")',
        "False",
        "a_failure_without_error_is_raised",
    ),
    Bug(CLAIM, 'this."group" is not null', "false", "a_group_without_room_waits"),
    Bug(
        CLAIM,
        "select from control where is_paused and",
        "select from control where false and",
        "a_paused_queue_stays",
    ),
    Bug(f"{T}running.py", "settled.stage is None", "True", "a_stage_follows"),
    Bug(f"{T}draining.py", "job_id, results\n", 'job_id, ""\n', "results_are_stored"),
    Bug("txqueue/store/temporary_databases.py", "relkind = 'r'", "relkind = 'm'", "all_is_cleared"),
    Bug(
        f"{T}connections.py",
        "for sql in frame.undoing:",
        "for sql in ():",
        "a_handler_can_use_a_transaction",
    ),
    Bug(
        f"{T}performing.py",
        "work.work_type, attempt,",
        "work.work_type, 1,",
        "a_handler_can_use_a_transaction",
    ),
]


@contextmanager
def planted(bug: Bug, connection: Any) -> Iterator[None]:
    """Run the code of a module, or a stored function, with a bug in it."""
    if bug.path == CLAIM:
        with connection.cursor() as cursor:
            cursor.execute(bug.put_in(dict(functions("txqueue"))[CLAIM]))
        yield
        return
    source = (ROOT / bug.path).read_text("utf-8")
    with ExitStack() as undo:
        undo.callback(run_in_place, bug.path, source)
        run_in_place(bug.path, bug.put_in(source))
        yield


def run_in_place(path: str, source: str) -> None:
    """Define all that a module has anew; what others have imported of it finds the new names."""
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    chosen = vars(module).get("_chosen")
    exec(compile(source, path, "exec"), vars(module))
    if chosen is not None:
        vars(module)["_chosen"] = chosen
    for name in testing.__all__:
        vars(testing).pop(name, None)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.path}: {bug.before.strip()[:50]}")
def test_each_check_notices_a_bug(bug: Bug, connection: Any) -> None:
    """With the bug, the check fails, not for another reason than what it looks at."""
    noticed = (AssertionError, pytest.fail.Exception, psycopg2.Error, ValueError, IndexError)
    with pytest.raises(noticed), planted(bug, connection):
        CHECKS[bug.check](connection)
