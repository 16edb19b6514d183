"""`txqueue.testing` over each driver: it reads and runs what the open transaction has enqueued."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg2
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.db import transaction as django_transaction

import txqueue.adapters.django
import txqueue.adapters.psycopg2
from tests.db.conftest import EMPTY
from tests.db.driver_faces import NAMES, NOT_BLOCKING, Face, tried
from tests.db.tested_work import (
    Everything,
    EverythingInAsyncio,
    EverythingInThread,
    Mail,
    Transfer,
    TransferInAsyncio,
    TransferInTask,
    TransferInThread,
    WaitsAfterwards,
    add,
    wait_for_loop,
    waited,
)
from tests.django_shop.configuration import set_up_django
from tests.fixtures.databases import Templates, fresh_database
from txqueue import task, testing
from txqueue.errors import TransactionMisused
from txqueue.store import given_jobs


@pytest.fixture(scope="module")
def shared_database(dsn18: str, templates: Templates) -> Iterator[str]:
    """A database with the schema, and the table of an application."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        with closing(psycopg2.connect(dsn)) as session, session, session.cursor() as cursor:
            cursor.execute(f"{EMPTY}; create table app (amount int, text text)")
        yield dsn


class Functions:
    """The functions of `txqueue.testing` for the connection of a face, blocking or not."""

    def __init__(self, name: str, face: Face) -> None:
        self.is_async = name in NOT_BLOCKING
        self.connection = face.first[0] if face.first else "default"

    def __getattr__(self, name: str) -> Any:
        async def called(*arguments: Any, **options: Any) -> Any:
            function = getattr(testing, f"a{name}" if self.is_async else name)
            result = function(*arguments, connection=self.connection, **options)
            return await result if self.is_async else result

        return called


@pytest.fixture(params=NAMES)
def over(request: pytest.FixtureRequest, shared_database: str) -> Any:
    """Return a function that runs a test over the connection of each driver."""

    def run(test: Any) -> None:
        async def tested(face: Face) -> None:
            await test(face, Functions(request.param, face))
            await face.end(commit=False)

        tried(request.param, shared_database, tested)

    return run


def test_uncommitted_jobs_are_found(over: Any) -> None:
    """An assertion finds what the transaction has enqueued, by its payload and its options."""

    async def test(face: Face, tester: Functions) -> None:
        number = await face.enqueue(Mail("50% of 'ada'"), tags={"a": "b", "c": "d"}, priority=9)
        job = await tester.assert_enqueued(Mail, to="50% of 'ada'", priority=9, tags={"c": "d"})
        assert (job.id, job.queue, job.payload["to"]) == (number, "mail", "50% of 'ada'")
        await tester.refute_enqueued(Mail, to="bob")
        with pytest.raises(AssertionError, match=r"to=\"50% of 'ada'\", not 'bob'"):
            await tester.assert_enqueued(Mail, to="bob")
        assert len(await tester.all_enqueued()) == 1

    over(test)


def test_a_drain_runs_them(over: Any) -> None:
    """Handlers of all kinds run, with what they enqueue, and nothing is committed."""

    async def test(face: Face, tester: Functions) -> None:
        for work in (Mail("friends"), add.work(1, second=4), wait_for_loop.work(7)):
            await face.enqueue(work)
        outcomes = await tester.drain()
        assert [each.get() for each in outcomes] == ["sent to friends", 5, 7, "sent to a friend"]
        (row,) = await face.execute("select count(*) from txqueue.job where state = 'done'")
        assert row[0] == 4

    over(test)


@pytest.mark.parametrize("work", [Transfer, TransferInAsyncio, TransferInTask, TransferInThread])
def test_own_transactions_are_savepoints(over: Any, work: Any) -> None:
    """What job.transaction() writes is there after it, and is undone if the handler fails.

    Functions block: over a connection that does not, they have a thread of their own.
    """

    async def test(face: Face, tester: Functions) -> None:
        await face.enqueue(work(5))
        await face.enqueue(work(-5))
        outcomes = await tester.drain([work], raise_errors=False)
        assert [each.kind for each in outcomes] == ["done", "retry", "done"]
        assert await face.execute("select amount, text from app") == [(5, "50%")]
        await tester.assert_enqueued(Mail, state="done", to="owner of 5", tags={"kind": "receipt"})

    over(test)


@pytest.mark.parametrize("work", [Everything, EverythingInAsyncio, EverythingInThread])
def test_each_statement_of_a_handler_is_played(over: Any, work: Any) -> None:
    """Whatever the driver's rules for the types of parameters."""

    async def test(face: Face, tester: Functions) -> None:
        number = await face.enqueue(work())
        await face.signal(number, "answer", 42)
        outcomes = await tester.drain(until=timedelta(seconds=10))
        found = {each.job_id: each.result for each in outcomes if each.kind == "done"}
        assert found[number] == [{"text": "50%"}, 42, 2, 0, True]
        assert await face.execute("select amount, text from app") == [(2, "50%")]

    over(test)


def test_a_handler_may_wait_after_its_transaction(over: Any) -> None:
    """It is not cancelled, although its job is done."""

    async def test(face: Face, tester: Functions) -> None:
        await face.enqueue(WaitsAfterwards(number := len(waited)))
        (outcome,) = await tester.drain([WaitsAfterwards])
        assert (outcome.kind, waited[number:]) == ("done", [number])

    over(test)


def test_a_second_open_drain_is_refused(
    shared_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for the first one, which may wait for it; the session keeps its own limit."""
    bounded = given_jobs._REGISTER.replace("10s", "10ms")
    monkeypatch.setattr(given_jobs, "_REGISTER", bounded)
    with (
        closing(psycopg2.connect(shared_database)) as first,
        closing(psycopg2.connect(shared_database)) as second,
    ):
        txqueue.adapters.psycopg2.enqueue(first, add.work(1))
        assert len(testing.drain(connection=first)) == 1
        with first.cursor() as cursor:
            cursor.execute("show lock_timeout")
            assert cursor.fetchone() == ("0",)
        txqueue.adapters.psycopg2.enqueue(second, add.work(1))
        with pytest.raises(TransactionMisused, match="another transaction that has run jobs"):
            testing.drain(connection=second)


def test_a_statement_that_fails_is_undone(over: Any) -> None:
    """A handler that breaks the transaction fails alone: its job is retried, the test goes on."""

    async def test(face: Face, tester: Functions) -> None:
        await face.enqueue(Mail("one"))
        await face.execute("insert into app values (1, 'kept')")
        await face.enqueue(Transfer(0))
        first, second = sorted(
            await tester.drain(raise_errors=False), key=lambda each: each.work_type
        )
        assert (first.kind, second.kind) == ("done", "retry")
        assert "division by zero" in str(second.error)
        assert await face.execute("select text from app") == [("kept",)]

    over(test)


def test_a_captured_block(over: Any) -> None:
    """Captured jobs are those of the block, even those that have run since."""

    async def test(face: Face, tester: Functions) -> None:
        await face.enqueue(Mail("before"))
        captured = testing.capture_enqueued(Mail, connection=tester.connection)
        if tester.is_async:
            async with captured:
                await face.enqueue(Mail("inside"))
                await tester.drain()
        else:
            with captured:
                await face.enqueue(Mail("inside"))
                await tester.drain()
        assert [json.dumps(job.payload["to"]) for job in captured] == ['"inside"']

    over(test)


def in_a_thread(test: Callable[[], None]) -> None:
    """Run a test of Django where no loop runs, as that of this thread is the reactor's."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(test).result(60)


@pytest.fixture
def django_database(shared_database: str) -> Iterator[None]:
    """The database in Django, as one of tests: else the first one of a process is the project's."""
    set_up_django(shared_database)
    settings = connections["default"].settings_dict
    settings["TEST"]["NAME"] = settings["NAME"]
    yield
    settings["TEST"]["NAME"] = None


@pytest.mark.usefixtures("django_database")
def test_a_handler_that_breaks_djangos_block_fails_alone() -> None:
    """In atomic(), the default alias is used, and works on after a handler's failed statement."""

    def test() -> None:
        try:
            with django_transaction.atomic():
                txqueue.adapters.django.enqueue(break_block.work())
                txqueue.adapters.django.enqueue(add.work(1))
                outcomes = testing.drain(raise_errors=False)
                assert sorted(each.kind for each in outcomes) == ["done", "retry"]
                testing.assert_enqueued(break_block)
                django_transaction.set_rollback(True)
            assert testing.all_enqueued() == []
        finally:
            connections["default"].close()

    in_a_thread(test)


@pytest.mark.usefixtures("django_database")
def test_without_a_transaction_all_jobs_run() -> None:
    """In autocommit mode a drain runs what is committed, and clear() deletes it."""

    def test() -> None:
        try:
            txqueue.adapters.django.enqueue(Mail("friends"))
            assert [each.kind for each in testing.drain()] == ["done", "done"]
            assert len(testing.all_enqueued(state="done")) == 2
        finally:
            testing.clear()
            assert testing.all_enqueued(state=["done", "waiting"]) == []
            connections["default"].close()

    in_a_thread(test)


@pytest.mark.usefixtures("django_database")
def test_a_coroutine_of_django() -> None:
    """From a coroutine, the connection is that of synchronous code."""

    async def test() -> None:
        await txqueue.adapters.django.aenqueue(add.work(1), group="async")
        try:
            await testing.aassert_enqueued(add, group="async")
            assert [each.get() for each in await testing.adrain()] == [2]
            assert (await testing.aperform(add.work(3))).get() == 4
        finally:
            await testing.aclear()
            await sync_to_async(connections.close_all)()

    in_a_thread(lambda: asyncio.run(test()))


@pytest.mark.usefixtures("django_database")
@pytest.mark.parametrize("name", ["assert_enqueued", "all_enqueued", "drain", "clear"])
def test_a_plain_call_in_a_coroutine_of_django_is_refused(name: str) -> None:
    """The error names the coroutine to call."""

    async def test() -> None:
        with pytest.raises(TypeError, match=rf"block a coroutine: await a{name}\(\)"):
            getattr(testing, name)()

    in_a_thread(lambda: asyncio.run(test()))


@task(name="testing.break_block")
def break_block() -> None:
    """Fail as a model's save() does, which marks the block as broken."""
    with django_transaction.mark_for_rollback_on_error("default"):
        connections["default"].cursor().execute("select 1 / 0")
