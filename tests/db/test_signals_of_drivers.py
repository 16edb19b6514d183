"""Signals over each driver, blocking and not: what arrives, and what is refused."""

import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

import pytest
from attrs import define
from cryptography.fernet import Fernet

from tests.db.conftest import empty_database
from tests.db.driver_faces import NAMES, Face, tried
from tests.db.kept_sessions import keeping
from tests.db.letters import TRICKY, Note
from tests.db.test_adapters import ask
from tests.db.test_encrypted import CANARY, Secret, Shy
from tests.fixtures.databases import Templates, fresh_database
from txqueue.adapters import signal_statement
from txqueue.errors import ConfigurationError, InvalidWork, KeyUnavailable, Refused, SchemaMismatch
from txqueue.node.settings import policy_row
from txqueue.store.enqueueing.encryption import KEY, decrypted

T = TypeVar("T")
Try = Callable[[Callable[[Face], Coroutine[Any, Any, T]]], T]
SENT: Final = "select name, value::text, key from txqueue.job_signal order by number"


@define
class Vote:
    """What a signal carries."""

    by: str
    voices: tuple[int, ...]


@pytest.fixture(scope="module")
def database(dsn18: str, templates: Templates) -> Iterator[str]:
    """The DSN of a database with the schema, and a table of an application."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn, keeping(dsn):
        ask(dsn, "create table placed (item text)")
        yield dsn


@pytest.fixture
def dsn(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same, without rows; this process has no key."""
    monkeypatch.delenv(KEY, raising=False)
    empty_database(database)
    ask(database, "truncate placed")
    return database


@pytest.fixture
def key(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has a key, and a node has published the types."""
    monkeypatch.setenv(KEY, Fernet.generate_key().decode())
    publish(dsn)


@pytest.fixture(params=NAMES)
def over(request: pytest.FixtureRequest, dsn: str) -> Try[Any]:
    """Runs a test over each driver in turn."""
    return lambda test: tried(request.param, dsn, test)


def publish(dsn: str) -> None:
    """Publish the types, as a node does."""
    rows = [policy_row(cls) for cls in (Secret, Shy)]
    ask(dsn, "select txqueue.publish(%s)", json.dumps(rows))


def sent(dsn: str) -> list[tuple[Any, ...]]:
    """Return the signals that are committed."""
    return ask(dsn, SENT)


def test_a_signal_is_there_if_and_only_if_the_callers_rows_are(dsn: str, over: Try[Any]) -> None:
    """Neither before the commit, nor after a rollback; once for one key."""

    async def test(face: Face) -> None:
        job_id = await face.enqueue(Note(), unique="note 7")
        await face.end(commit=True)
        for commit in (False, True):
            await face.execute("insert into placed values ('tea')")
            assert await face.signal(job_id, TRICKY, {"of": TRICKY, "is": [1.5, True, None]})
            assert await face.signal((Note, "note 7"), "go", Vote("Ada", (1, 2)), key="%s :k $1")
            assert not await face.signal((Note, "note 7"), "go", key="%s :k $1")
            assert await face.signal(job_id, "go")
            assert sent(dsn) == []
            await face.end(commit=commit)
        assert ask(dsn, "select count(*) from placed") == [(1,)]

    over(test)
    first, *others = sent(dsn)
    assert (first[0], json.loads(first[1])) == (TRICKY, {"of": TRICKY, "is": [1.5, True, None]})
    assert others == [
        ("go", '{"by": "Ada", "voices": [1, 2]}', "%s :k $1"),
        ("go", None, None),
    ]


REFUSED: Final[list[tuple[Any, str]]] = [
    (1, "it was cancelled"),
    (999, "there is no job 999"),
    ((Note, "none"), "holds the unique key none"),
]


@pytest.mark.parametrize(("of", "why"), REFUSED, ids=["ended", "unknown", "key"])
def test_a_job_that_takes_no_signal(dsn: str, over: Try[Any], of: Any, why: str) -> None:
    """Is an error of txqueue; a savepoint keeps the transaction usable."""
    ask(dsn, "select txqueue.enqueue('enqueue.note', '{}')")
    ask(dsn, "select txqueue.cancel('{1}', 'me')")

    async def test(face: Face) -> None:
        await face.execute("insert into placed values ('tea')")
        with pytest.raises(Refused, match=why) as caught:
            await face.signal(of, "go", savepoint=True)
        assert caught.value.__cause__ is not None
        await face.end(commit=True)
        assert ask(dsn, "select count(*) from placed") == [(1,)]
        with pytest.raises(Refused, match=why):
            await face.signal(of, "go")
        with pytest.raises(Refused, match="an earlier statement of this transaction has failed"):
            await face.signal(of, "go")
        await face.end(commit=False)
        with pytest.raises(SchemaMismatch):
            await face.signal(of, "go", schema="nowhere")

    over(test)


NOT_VALID: Final[list[tuple[Any, ...]]] = [
    (0, "go"),
    (True, "go"),
    ((), "go"),
    ((Vote, "k"), "go"),
    ((Note, ""), "go"),
    ((Note, None), "go"),
    (1, ""),
    (1, "x" * 201),
    (1, "\0"),
    (1, "\ud800"),
    (1, "go", float("nan")),
    (1, "go", object()),
    (1, "go", {"a": "\0"}),
    (1, "go", None, ""),
    (1, "go", None, "x" * 1001),
    (1, "go", None, "\ud800"),
    (1, "go", None, 7),
]


def test_a_signal_that_is_not_valid_sends_nothing(dsn: str, over: Try[Any]) -> None:
    """The transaction goes on, without a savepoint."""

    async def test(face: Face) -> None:
        await face.execute("insert into placed values ('tea')")
        for of, name, *rest in NOT_VALID:
            value, its_key = [*rest, None, None][:2]
            with pytest.raises(InvalidWork):
                await face.signal(of, name, value, key=its_key)
        with pytest.raises(InvalidWork, match="the value of the signal 'go' is not JSON"):
            await face.signal(1, "go", object())
        with pytest.raises(ConfigurationError):
            await face.signal(1, "go", schema='x"; drop')
        await face.end(commit=True)
        assert ask(dsn, "select count(*) from placed") == [(1,)]

    over(test)


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("by", ["number", "key"])
def test_a_signal_to_an_encrypted_type_is_encrypted(dsn: str, over: Try[Any], by: str) -> None:
    """Those to other types are not, though this process has a key."""

    async def test(face: Face) -> None:
        secret = await face.enqueue(Secret("1"), unique="k")
        shy = await face.enqueue(Shy("1"), unique="k")
        of: list[Any] = [secret, shy] if by == "number" else [(Secret, "k"), (Shy, "k")]
        for each in of:
            assert await face.signal(each, "go", {"code": CANARY})
            assert await face.signal(each, "none")
        await face.end(commit=True)

    over(test)
    values = [value for _, value, _ in sent(dsn)]
    stored = json.loads(values[0])
    assert decrypted(Secret.work_type, "signal", stored) == {"code": CANARY}
    assert CANARY not in values[0]
    assert values[1:] == [None, f'{{"code": "{CANARY}"}}', None]


def test_without_a_key_a_value_is_refused(dsn: str, over: Try[Any]) -> None:
    """Before it is sent if the class is named, else by the database, which does not show it."""
    payload = '{"encrypted": "x"}'
    ask(dsn, "select txqueue.enqueue('encrypted.secret', %s, \"unique\" => 'k')", payload)

    async def test(face: Face) -> None:
        for is_published in (False, True):
            if is_published:
                publish(dsn)
            with pytest.raises(KeyUnavailable):
                await face.signal((Secret, "k"), "go", CANARY)
            with pytest.raises(Refused, match="are encrypted, and the value of go is in") as caught:
                await face.signal(1, "go", CANARY, savepoint=True)
            assert CANARY not in str(caught.value)
            assert "TXQUEUE_PAYLOAD_KEY" in str(caught.value)
        await face.signal(1, "go")
        await face.end(commit=True)

    over(test)
    assert sent(dsn) == [("go", None, None)]


def test_a_statement_for_other_drivers(dsn: str) -> None:
    """Its value is whether the signal is new."""
    [[job_id]] = ask(dsn, "select txqueue.enqueue('enqueue.note', '{}')")
    sql, parameters = signal_statement(job_id, "go", [1], key="k", paramstyle="format")
    assert ask(dsn, sql, *parameters) == [(True,)]
    assert ask(dsn, sql, *parameters) == [(False,)]
    assert sent(dsn) == [("go", "[1]", "k")]
