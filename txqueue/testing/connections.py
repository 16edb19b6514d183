"""The connection that a test's calls use, and how they wait over it or without one."""

from __future__ import annotations

import asyncio
import operator
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from inspect import isawaitable, iscoroutinefunction, unwrap
from typing import Any, Final, ParamSpec, TypeVar, cast

from attrs import frozen

from txqueue.adapters.calls import REFUSALS, AsyncDriverSession, DriverSession, foreign_session
from txqueue.errors import ConfigurationError
from txqueue.store.enqueueing.calls import ParamStyle, Statement
from txqueue.store.enqueueing.portable_calls import SAVEPOINT, TRANSACTION, Frame
from txqueue.system.clock import in_asyncio, unbroken

# pytest and unittest leave this module out of tracebacks.
__tracebackhide__ = __unittest = True

P = ParamSpec("P")
T = TypeVar("T")
# No context variable: fixtures, with pytest-twisted or pytest-asyncio, run in another context than
# the tests that they serve.
_chosen: Final[list[Any]] = []
_SCHEMA: Final = "txqueue"
# A transaction whose module is not imported cannot be there.
_TRANSACTIONS: Final = {
    "txqueue.aio.transaction": "AsyncTransaction",
    "txqueue.sync.transaction": "BlockingTransaction",
}


@contextmanager
def connected(connection: Any) -> Iterator[None]:
    """Have the functions of `txqueue.testing` use a connection where none is passed.

    In a project of Django, they use the database of its first backend of tasks without that. The
    schema is ``txqueue``, or that of the backend of the alias, unless it is passed.

    Args:
        connection: A connection or session of any driver that has an adapter, the transaction of a
            queue, or the alias of a database of Django.
    """
    _chosen.append(connection)
    try:
        yield
    finally:
        _chosen.pop()


def default_connection() -> Any:
    """Return the connection to use where none is passed.

    Raises:
        ConfigurationError: When there is none.
    """
    if (connection := _default()) is None:
        raise ConfigurationError(
            "this call needs the test's connection to the database, and was given none",
            "pass connection=, or call it inside: with txqueue.testing.connected(connection)",
        )
    return connection


def _default() -> Any:
    if _chosen:
        return _chosen[-1]
    return next((each.database for each in _backends()), "default") if _has_django() else None


def _has_django() -> bool:
    conf = sys.modules.get("django.conf")
    return conf is not None and bool(conf.settings.configured)


def _backends() -> list[Any]:
    """Return the backends of Django's tasks, if the project has the app."""
    module = sys.modules.get("txqueue.django.checks")
    return [] if module is None else list(module.backends())


def schemas_of(using: str) -> list[str]:
    """Return the schemas of backends of tasks in a database of Django, the first one first."""
    of_backends = [each.schema for each in _backends() if each.database == using]
    return list(dict.fromkeys(of_backends)) or [_SCHEMA]


def alias_of(connection: Any) -> str | None:
    """Return the alias of the database of Django that a call uses; None if it uses none."""
    used = _default() if connection is None else connection
    return used if isinstance(used, str) else None


@frozen
class Bound:
    """A test's connection, for coroutines that wait for nothing unless it is asynchronous.

    Attributes:
        session: How its driver runs a statement.
        schema: The name of txqueue's schema.
        is_asynchronous: Whether its calls are awaited.
        is_open: Whether a transaction was open.
        is_alone: Whether each statement was a transaction of its own.
        call: Calls a method of the session.
    """

    session: DriverSession[Any]
    schema: str
    is_asynchronous: bool
    is_open: bool
    is_alone: bool
    call: Callable[..., Any] = operator.call

    @property
    def style(self) -> ParamStyle:
        """How its driver spells parameters."""
        return self.session.style

    async def value(self, statement: Statement) -> Any:
        """Send a statement, and return its only value."""
        with REFUSALS:
            return await answer_of(self.call(self.session.value, statement))

    async def rows(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        """Send a statement with ``%s`` for parameters, and return its rows."""
        return list(await answer_of(self.call(self.session.rows, sql, parameters)))

    @property
    def frame(self) -> Frame:
        """What makes several statements act together or not at all."""
        return TRANSACTION if self.is_alone else SAVEPOINT

    async def undo(self, frame: Frame) -> None:
        """Undo what was done since the opening of a frame."""
        self.session.before_undo()
        for sql in frame.undoing:
            await unbroken(self.value((sql, ())))


async def bound(connection: Any, schema: str | None) -> Bound:
    """Return a connection as the coroutines of this package use it.

    Args:
        connection: The connection; None for the test's.
        schema: The name of txqueue's schema; None for that of the backend of tasks.

    Raises:
        TypeError: When it is no connection of a known driver.
    """
    if connection is None:
        connection = default_connection()
    if isinstance(connection, str):
        return await _of_django(connection, schema or schemas_of(connection)[0])
    if (session := await _session(connection)) is None:
        raise TypeError(
            f"{type(connection).__name__} is no connection that txqueue.testing can use; pass one"
            " of psycopg2, psycopg, asyncpg or SQLAlchemy, the transaction of a queue, or the alias"
            " of a database of Django"
        )
    its = session.is_asynchronous, session.is_open, session.is_alone
    return Bound(session, schema or _SCHEMA, *its)


async def _session(connection: Any) -> DriverSession[Any] | None:
    module = sys.modules.get("txqueue.store.enqueueing.transaction")
    if module is not None and isinstance(connection, module.Transaction):
        return _TwistedSession(connection.execute)
    module = sys.modules.get("txpostgres.txpostgres")
    if module is not None and isinstance(connection, module.Cursor):
        return _TwistedSession(partial(_rows_of_interaction, connection))
    return await foreign_session(_of_queue(connection))


def _of_queue(connection: Any) -> Any:
    """Return the connection of psycopg in a transaction of a queue without Twisted."""
    for name, kind in _TRANSACTIONS.items():
        module = sys.modules.get(name)
        if module is not None and isinstance(connection, getattr(module, kind)):
            return connection.connection
    return connection


async def _of_django(using: str, schema: str) -> Bound:
    from txqueue.adapters.django import foreign

    is_asynchronous = in_asyncio()

    def made() -> Bound:
        session = foreign(using)
        its = session.is_open, session.is_alone
        return Bound(session, schema, is_asynchronous, *its, call=_by_django)

    found: Bound = await answer_of(_by_django(made))
    return found


def _by_django(function: Callable[..., T], *arguments: Any) -> T | Coroutine[Any, Any, T]:
    """Call a function in the thread that has Django's connection; await the answer in a loop."""
    return apart(function, *arguments) if in_asyncio() else function(*arguments)


async def answer_of(answer: Any) -> Any:
    """Return an answer, also one that is to be awaited."""
    return await answer if isawaitable(answer) else answer


async def _rows_of_interaction(cursor: Any, sql: str, parameters: Sequence[object]) -> list[Any]:
    await cursor.execute(sql, parameters)
    return [] if cursor.description is None else list(cursor.fetchall())


class _TwistedSession(AsyncDriverSession[Callable[..., Any]]):
    """A transaction of Twisted's, by what executes its statements and returns rows."""

    is_open = True
    is_alone = False

    async def rows(self, sql: str, parameters: Any) -> Any:
        """Send a statement with ``%s`` for each parameter; return its rows."""
        return await self.connection(sql, parameters)


def finished(coroutine: Coroutine[Any, Any, T], connection: Any, asynchronous: str) -> T:
    """Run a coroutine that has nothing to wait for, as its connection blocks.

    Args:
        coroutine: The coroutine.
        connection: The connection; None for the test's.
        asynchronous: The function to call in its place if the connection is asynchronous.

    Raises:
        TypeError: When it is, or is Django's in a coroutine.
    """
    try:
        used = default_connection() if connection is None else connection
        if not is_asynchronous(used):
            coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        coroutine.close()
    raise TypeError(_remedy(used, asynchronous))


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return a function for connections that block from the one for any connection."""

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        connection = options.get("connection")
        return finished(function(*arguments, **options), connection, f"{function.__name__}()")

    return call


def _remedy(connection: Any, asynchronous: str) -> str:
    if isinstance(connection, str):
        return f"Django's connection cannot block a coroutine: await {asynchronous} in its place"
    return f"this connection is asynchronous: await {asynchronous} in a coroutine"


def is_asynchronous(connection: Any) -> bool:
    """Tell whether the statements of a connection need the loop; None for the test's, if any."""
    used = _default() if connection is None else connection
    # What waits in a thread would go on there without its caller.
    if isinstance(used, str):
        return in_asyncio()
    # A pool of asyncpg lends objects whose methods wrap those of a connection.
    execute = getattr(used, "execute", None)
    return execute is not None and iscoroutinefunction(unwrap(execute))


async def apart(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call a function in the thread that has Django's connection."""
    from asgiref.sync import sync_to_async

    called: T = await sync_to_async(partial(function, *arguments, **options))()
    return called


async def pause(connection: Bound, seconds: float) -> None:
    """Wait for some seconds, whatever runs the caller."""
    if not connection.is_asynchronous:
        time.sleep(seconds)
    elif in_asyncio():
        await asyncio.sleep(seconds)
    else:
        from twisted.internet import reactor
        from twisted.internet.task import deferLater

        await deferLater(cast("Any", reactor), seconds)


def loop_of_project() -> Callable[[Coroutine[Any, Any, T]], T]:
    """Return what runs a coroutine in a loop of its own.

    In a project of Django the loop has a thread of its own, and what its coroutines do by
    `sync_to_async` is done here, over the connection of the caller.
    """
    if not _has_django():
        return asyncio.run
    from asgiref.sync import async_to_sync

    return async_to_sync(_awaited)


async def _awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    return await coroutine


def in_loop() -> bool:
    """Tell whether a loop of asyncio runs, perhaps as Twisted's reactor."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
