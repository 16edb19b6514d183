"""What one driver or framework has that others have not, and each adapter behind a pooler."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final, TypeVar

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from psycopg import rows
from psycopg2.extras import RealDictCursor
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from tests.db.driver_faces import (
    NAMES,
    Face,
    asyncpg_address,
    now,
    tried,
    url_of,
)
from tests.db.letters import FAR, Note
from tests.django_shop.configuration import set_up_django
from tests.fixtures.databases import Templates, fresh_database
from txqueue import adapters
from txqueue.adapters import asyncpg as over_asyncpg
from txqueue.adapters import django as over_django
from txqueue.adapters import psycopg as over_psycopg
from txqueue.adapters import psycopg2 as over_psycopg2
from txqueue.adapters import sqlalchemy as over_sqlalchemy
from txqueue.errors import ConfigurationError, InvalidWork, Refused, TransactionMisused

T = TypeVar("T")
# The last one is refused when two thousand have been sent.
MANY = [*[Note()] * 2500, Note("9" * 2_000_000)]
NOTED = "select txqueue.enqueue('enqueue.note', jsonb_build_object('text', %s::text))"


@pytest.fixture(scope="module")
def dsn(dsn18: str, templates: Templates) -> Iterator[str]:
    """The DSN of a database with the schema."""
    with fresh_database(dsn18, templates.name(dsn18)) as made:
        yield made


def in_thread(call: Callable[[], T]) -> T:
    """Call in a thread of its own, where no event loop runs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result(60)


def in_loop(test: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own."""
    return in_thread(lambda: asyncio.run(test))


def count(dsn: str) -> int:
    """Count the jobs, as another session sees them."""
    with closing(psycopg2.connect(dsn)) as session, session.cursor() as cursor:
        cursor.execute("select count(*) from txqueue.job")
        return int(cursor.fetchone()[0])  # type: ignore[index]


def test_rows_as_dictionaries_change_nothing_for_psycopg2(dsn: str) -> None:
    """The adapter has a cursor of its own."""
    with closing(psycopg2.connect(dsn, cursor_factory=RealDictCursor)) as connection:
        one = over_psycopg2.enqueue(connection, Note())
        assert over_psycopg2.enqueue_many(connection, [Note()]) == [one + 1]


def test_rows_and_parameters_of_another_kind_change_nothing_for_psycopg(dsn: str) -> None:
    """Nor does a class of cursors that spells parameters ``$1``."""
    with closing(psycopg.Connection.connect(dsn, row_factory=rows.dict_row)) as connection:
        connection.cursor_factory = psycopg.RawCursor
        one = over_psycopg.enqueue(connection, Note(), not_before=FAR)
        with connection.pipeline():
            assert over_psycopg.enqueue_many(connection, [Note()]) == [one + 1]


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_refusal_in_a_pipeline_of_psycopg_undoes_itself_only(dsn: str, autocommit: bool) -> None:
    """The statements before and after it act, of which those before have not been answered."""

    async def test() -> None:
        connecting = psycopg.AsyncConnection.connect(dsn, autocommit=autocommit)
        async with await connecting as connection, connection.pipeline():
            await connection.execute(NOTED, (" a",))
            with pytest.raises(Refused, match="payload"):
                await over_psycopg.aenqueue(connection, MANY[-1], savepoint=True)
            await connection.execute(NOTED, (" b",))
            with pytest.raises(Refused, match="payload"):
                await over_psycopg.aenqueue_many(connection, MANY, savepoint=True)

    before = count(dsn)
    in_loop(test())
    with psycopg.connect(dsn, autocommit=autocommit) as connection, connection.pipeline():
        connection.execute(NOTED, (" c",))
        with pytest.raises(Refused, match="payload"):
            over_psycopg.enqueue_many(connection, MANY, savepoint=True)
        over_psycopg.enqueue(connection, Note(), savepoint=True)
    assert count(dsn) == before + 4


def test_codecs_change_nothing_for_asyncpg(dsn: str) -> None:
    """On a connection that a pool has lent, with other codecs for what a job has."""

    async def test() -> None:
        async with asyncpg.create_pool(**asyncpg_address(dsn), min_size=1, max_size=1) as pool:
            async with pool.acquire() as connection, connection.transaction():
                for name in ("jsonb", "json"):
                    await connection.set_type_codec(
                        name, schema="pg_catalog", encoder=json.dumps, decoder=json.loads
                    )
                for name in ("int8", "timestamptz"):
                    await connection.set_type_codec(
                        name, schema="pg_catalog", encoder=str, decoder=str, format="text"
                    )
                options: Any = {"not_before": FAR, "tags": {"a": "b"}, "unique": "codecs"}
                one = await over_asyncpg.enqueue(connection, Note("text"), **options)
                assert await over_asyncpg.enqueue_many(connection, [Note()]) == [one + 1]
                found = await connection.fetchval(
                    "select payload from txqueue.job where job_id = $1::text::bigint", str(one)
                )
            assert found == {"text": "text"}
            with pytest.raises(TypeError, match="Pool is no connection of asyncpg"):
                await over_asyncpg.enqueue(pool, Note())

    in_loop(test())


def test_scoped_sessions_of_sqlalchemy_enqueue(dsn: str) -> None:
    """In the session of the scope."""
    engine = sqlalchemy.create_engine(url_of("psycopg", dsn), poolclass=NullPool)
    scoped = scoped_session(sessionmaker(engine))
    assert over_sqlalchemy.enqueue(scoped, Note()) > 0
    assert scoped().in_transaction()
    scoped.remove()


def test_scoped_asynchronous_sessions_of_sqlalchemy_enqueue(dsn: str) -> None:
    """In the session of the scope."""

    async def test() -> None:
        engine = create_async_engine(url_of("asyncpg", dsn), poolclass=NullPool)
        scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        assert await over_sqlalchemy.aenqueue(scoped, Note()) > 0
        assert scoped().in_transaction()
        await scoped.remove()

    in_loop(test())


AUTOCOMMIT: Final = {"isolation_level": "AUTOCOMMIT"}
ALONE: Final[dict[str, Callable[[Face], Any]]] = {
    "psycopg2": lambda face: setattr(face.handle, "autocommit", True),
    "psycopg": lambda face: setattr(face.handle, "autocommit", True),
    "asyncpg": lambda face: face.handle.execute("rollback"),
    "sqlalchemy-session-psycopg": lambda face: face.handle.connection(execution_options=AUTOCOMMIT),
    "sqlalchemy-session-asyncpg": lambda face: face.handle.connection(execution_options=AUTOCOMMIT),
    "django": lambda _: transaction.set_autocommit(True),
}
"""How a connection comes to commit each statement."""


@pytest.mark.parametrize("name", ALONE)
def test_a_connection_that_commits_each_statement(dsn: str, name: str) -> None:
    """One job is committed at once, many together or not at all, and a batch is refused."""

    async def test(face: Face) -> None:
        await now(ALONE[name](face))
        await face.enqueue(Note(), savepoint=True)
        with pytest.raises(Refused):
            await face.enqueue_many(MANY)
        await face.enqueue_many([Note()] * 1100)
        with pytest.raises(TransactionMisused):
            await face.batch(Note()).__aenter__()

    before = count(dsn)
    tried(name, dsn, test)
    assert count(dsn) == before + 1101


def test_a_session_takes_back_jobs_of_a_batch(dsn: str) -> None:
    """Those that are the first statement of a savepoint, which begins with that statement."""
    before = count(dsn)
    with (
        Session(sqlalchemy.create_engine(url_of("psycopg", dsn), poolclass=NullPool)) as session,
        session.begin(),
        over_sqlalchemy.batch(session, Note()) as batch,
    ):
        batch.enqueue(Note())
        with session.begin_nested() as savepoint:
            undone = batch.enqueue(Note())
            savepoint.rollback()
        batch.ids.remove(undone)
    assert count(dsn) == before + 2


def test_an_asynchronous_session_takes_back_jobs_of_a_batch(dsn: str) -> None:
    """Likewise."""

    async def test() -> None:
        engine = create_async_engine(url_of("psycopg", dsn), poolclass=NullPool)
        async with (
            AsyncSession(engine) as session,
            session.begin(),
            over_sqlalchemy.abatch(session, Note()) as batch,
        ):
            await batch.enqueue(Note())
            async with session.begin_nested() as savepoint:
                undone = await batch.enqueue(Note())
                await savepoint.rollback()
            batch.ids.remove(undone)

    before = count(dsn)
    in_thread(lambda: asyncio.run(test()))
    assert count(dsn) == before + 2


def test_djangos_atomic_takes_jobs_back(dsn: str) -> None:
    """With its rows; an inner block takes back its own."""

    def test() -> None:
        set_up_django(dsn)
        with closing(transaction.get_connection()):
            before = count(dsn)
            with transaction.atomic():
                over_django.enqueue(Note())
                transaction.set_rollback(True)
            assert count(dsn) == before
            with transaction.atomic(), over_django.batch(Note()) as batch:
                batch.enqueue(Note())
                with transaction.atomic():
                    over_django.enqueue(Note())
                    transaction.set_rollback(True)
            assert count(dsn) == before + 2

    in_thread(test)


def test_django_enqueues_from_coroutines(dsn: str) -> None:
    """Over the connection of its synchronous code."""

    async def test() -> None:
        set_up_django(dsn)
        before = count(dsn)
        try:
            one = await over_django.aenqueue(Note(), priority=9)
            assert await over_django.aenqueue_many([Note()]) == [one + 1]
            assert count(dsn) == before + 2
        finally:
            # Coroutines of all tests have the connections of one other thread.
            await sync_to_async(connections.close_all)()

    in_loop(test())


def test_another_kind_of_database_is_an_error(dsn: str) -> None:
    """Which names the database."""
    set_up_django(dsn)
    with pytest.raises(ConfigurationError, match="'lite' of Django is one of sqlite"):
        over_django.enqueue(Note(), using="lite")
    with pytest.raises(ConfigurationError, match="using is None, and not the alias"):
        over_django.enqueue(Note(), using=None)  # type: ignore[arg-type]
    with (
        sqlalchemy.create_engine("sqlite://").connect() as connection,
        pytest.raises(ConfigurationError, match="a database of sqlite"),
    ):
        over_sqlalchemy.enqueue(connection, Note())


def test_what_is_no_connection_is_a_type_error(dsn: str) -> None:
    """Which says what to call instead."""
    engine: Any = sqlalchemy.create_engine(url_of("psycopg", dsn))
    with pytest.raises(TypeError, match="Engine is no Connection or Session"):
        over_sqlalchemy.enqueue(engine, Note())
    with pytest.raises(TypeError, match="Engine is no AsyncConnection"):
        in_loop(over_sqlalchemy.aenqueue(engine, Note()))
    with closing(psycopg2.connect(dsn)) as other:
        wrong: Any = other
        with pytest.raises(TypeError, match=r"is not a psycopg\.Connection"):
            over_psycopg.enqueue(wrong, Note())
    with (
        closing(psycopg2.connect(dsn, async_=1)) as other,
        pytest.raises(TypeError, match="blocks"),
    ):
        over_psycopg2.enqueue(other, Note())


def test_an_encoding_that_lacks_a_character_is_invalid_work(dsn: str) -> None:
    """Nothing is sent; a payload is spelled in ASCII, and arrives."""
    with closing(psycopg2.connect(dsn)) as connection:
        connection.set_client_encoding("LATIN1")
        with pytest.raises(InvalidWork, match="set client_encoding to UTF8"):
            over_psycopg2.enqueue(connection, Note(), group="☃")
        over_psycopg2.enqueue(connection, Note("☃"))


@pytest.mark.parametrize("style", ["named", "pyformat"])
def test_statements_have_parameters_by_name(dsn: str, style: Any) -> None:
    """SQLAlchemy's text() reads the first kind, psycopg2 the second."""
    sql, parameters = adapters.statement(
        Note("%"), paramstyle=style, priority=7, after=[], not_before=FAR
    )
    [(many, texts)] = adapters.statements([Note("%"), Note()], paramstyle=style)
    if style == "named":
        engine = sqlalchemy.create_engine(url_of("psycopg2", dsn), poolclass=NullPool)
        with engine.connect() as session:
            one = session.execute(sqlalchemy.text(sql), parameters).scalar()
            ids = session.execute(sqlalchemy.text(many), texts).scalar()
    else:
        with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            [one] = cursor.fetchone() or ()
            cursor.execute(many, texts)
            [ids] = cursor.fetchone() or ()
    assert one is not None
    assert ids == [one + 1, one + 2]


def test_a_style_that_no_driver_has_is_an_error() -> None:
    """Which lists those that there are."""
    wrong: Any = "qmark"
    with pytest.raises(ConfigurationError, match="use one of format, pyformat, named"):
        adapters.statement(Note(), paramstyle=wrong)


def test_the_errors_of_pg8000_are_read() -> None:
    """Their fields are a dictionary, as the server has sent them."""
    error = adapters.error_of(RuntimeError({"C": "TXQ01", "M": "no", "H": "do that"}))
    assert isinstance(error, Refused)
    assert (error.what, error.remedy) == ("no", "do that")
    assert adapters.error_of(RuntimeError({"C": "40P01", "M": "deadlock detected"})) is None
    assert adapters.error_of(OSError("gone")) is None


@pytest.mark.parametrize("name", NAMES)
def test_each_adapter_works_behind_a_pooler(pooler: str, name: str) -> None:
    """More often than what gets prepared, in transactions that take turns."""

    async def test(face: Face) -> list[int]:
        ids = []
        for number in range(8):
            ids.append(await face.enqueue(Note(str(number)), savepoint=number == 4))
            await face.end(commit=True)
        ids += await face.enqueue_many([Note()] * 1100)
        await face.end(commit=True)
        return ids

    assert len(set(tried(name, pooler, test))) == 1108
