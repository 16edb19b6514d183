"""Commands and tools behind PgBouncer in transaction mode, with one connection for all clients.

What a command leaves in its session, the next client of the pool finds there.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import psycopg2
import pytest

from tests.db.letters import Letter, opened
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.store.driver.raw_connection import OFTEN
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.examination.facts import FACTS, examine
from txqueue.store.reads.history import PastDays

SHOWN = "select current_setting('jit') as jit"
JOB = """[{"work_type": "shop.Mail", "payload": {"to": "zoë"}}]"""
ENQUEUE = "select txqueue.enqueue_many(%s)"
STATE = """
    select name, setting from pg_settings
     where name not in ('application_name', 'client_encoding', 'transaction_isolation')
    union all select 'listens on', pg_listening_channels()
    union all select 'has prepared', name from pg_prepared_statements
    union all select 'holds', mode from pg_locks
     where locktype = 'advisory' and pid = pg_backend_pid()
     order by 1
"""
LOOKING = (
    ("status",),
    ("nodes",),
    ("jobs",),
    ("jobs", "--tag", "a=b"),
    ("job", "1"),
    ("explain", "1"),
    ("batch", "1"),
    ("doctor",),
    ("limits",),
    ("actions",),
    ("worksets",),
    ("tenants",),
    ("schedules",),
    ("schedule", "runs"),
    ("failures",),
    ("history",),
    ("stats",),
)
CHANGING = (
    ("migrate",),
    ("enqueue", "shop.Mail", "{}"),
    ("repeat", "1"),
    ("schedule", "add", "nightly", "shop.Mail", "{}", "--cron", "0 0 * * *"),
    ("archive", "--to", "archived"),
)
# The job is in no batch, and runs; nothing about the server itself is what doctor looks for.
MAY_FAIL = ("batch", "repeat", "doctor")


def ask(dsn: str, sql: str, *parameters: str) -> list[tuple[str, ...]]:
    """Run a statement as a client of the pool."""
    with closing(psycopg2.connect(dsn)) as client, client, client.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


@pytest.fixture
def compiling(pooler: str) -> Iterator[str]:
    """The DSN of the pooler, whose session compiles statements."""
    ask(pooler, "select set_config('jit', 'on', false)")
    yield pooler
    ask(pooler, "select set_config('jit', 'off', false)")


async def test_a_client_leaves_the_pooled_session_as_it_was(pooler: str) -> None:
    """However it enqueues, and what it reads; also more often than what gets prepared."""
    ask(pooler, ENQUEUE, JOB)
    before = ask(pooler, STATE)
    async with opened(pooler, connections=1) as queue:
        ids = [await queue.enqueue(Letter("zoë")) for _ in range(2 * OFTEN)]
        ids += await queue.enqueue_many([Letter("bob"), Letter("eve")])
        async with queue.transaction() as txn:
            ids.append(await txn.enqueue(Letter("ann"), unique="ann"))
            await txn.execute("select 1")
        assert [(await queue.job(each)).id for each in ids[-2:]] == ids[-2:]
    assert ask(pooler, STATE) == before
    assert len(set(ids)) == 2 * OFTEN + 3


def shown() -> Inquiry[Rows]:
    """Ask whether the session compiles statements."""
    return (yield Question(SHOWN))


def test_no_question_of_a_command_is_compiled(
    compiling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands and doctor's checks alike; doctor sees that the session would compile others."""
    with Session(compiling) as session:
        assert session.find(shown()) == [{"jit": "off"}]
    monkeypatch.setitem(cast("dict[str, Any]", FACTS), "shown", lambda _: shown())
    facts = examine(compiling, "txqueue")
    assert facts["shown"] == [{"jit": "off"}]
    assert [row["jit"] for row in cast("Rows", facts["settings"])] == ["on"]


def test_archiving_leaves_no_lock_in_the_pooled_session(pooler: str) -> None:
    """Two clients share the session, and only one of them may archive."""
    with Session(pooler) as one, Session(pooler) as other, PastDays(one).alone() as is_alone:
        assert is_alone
        assert [row for row in ask(pooler, STATE) if row[0] == "holds"] == []
        with PastDays(other).alone() as is_other_alone:
            assert not is_other_alone


@pytest.mark.parametrize("words", [*LOOKING, *CHANGING], ids=" ".join)
def test_a_command_leaves_the_pooled_session_as_it_was(
    pooler: str,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The next client finds no setting, lock, channel or statement of it, and can enqueue."""
    monkeypatch.chdir(tmp_path)
    ask(pooler, ENQUEUE, JOB)
    before = ask(pooler, STATE)
    status = run(["--dsn", pooler, *words], GlobalOptions())
    assert status == 0 or words[0] in MAY_FAIL, capsys.readouterr()
    assert ask(pooler, STATE) == before
    ask(pooler, ENQUEUE, JOB)
