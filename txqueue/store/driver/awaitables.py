"""Has what awaits Deferreds awaited by tasks of asyncio's, too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from txqueue.system.clock import in_asyncio

if TYPE_CHECKING:
    from txqueue.store.driver.connection import Connection

T = TypeVar("T")
C = TypeVar("C", bound="Connection")


class ForTask(asyncio.Future[None]):
    """What a task of asyncio's gets to wait for; other drivers of a coroutine send it back."""


class _Either(Generic[T]):
    """Awaits a Deferred, whatever drives the coroutine that awaits this.

    It can be a task or, inside of one, `Deferred.fromCoroutine`, which sends back at once what is
    no Deferred.
    """

    def __init__(self, deferred: Deferred[T], loop: asyncio.AbstractEventLoop) -> None:
        self._deferred = deferred
        self._future = ForTask(loop=loop)

    def __await__(self) -> Generator[Any, Any, T]:
        self._deferred.addBoth(self._note)
        if not self._future.done():
            try:
                sent = yield next(iter(self._future))
            except BaseException:
                # Its task was cancelled, or is closed.
                self._deferred.addErrback(lambda _: None).cancel()
                raise
            if sent is not None:
                self._future.cancel()
        return (yield from self._deferred.__await__())

    def _note(self, result: T | Failure) -> T | Failure:
        if not self._future.done():
            self._future.set_result(None)
        return result


def awaitable(deferred: Deferred[T]) -> Awaitable[T]:
    """Return a Deferred as the caller can await it, who may be a task of asyncio's."""
    return _Either(deferred, asyncio.get_running_loop()) if in_asyncio() else deferred


def entered(manager: AbstractAsyncContextManager[C]) -> AbstractAsyncContextManager[C]:
    """Return what lends a connection as the caller can enter it, who may be a task of asyncio's."""
    return _ForTasks(manager) if in_asyncio() else manager


class _Adapted:
    """A connection whose statements any coroutine can await.

    Args:
        connection: The connection.
    """

    _connection: Connection

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        object.__setattr__(self, "_connection", connection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._connection, name, value)

    async def query(self, *args: Any, **options: Any) -> list[Any]:
        """Run a statement."""
        running = Deferred.fromCoroutine(self._connection.query(*args, **options))
        return cast("list[Any]", await awaitable(running))

    async def query_often(self, *args: Any) -> list[Any]:
        """Run a frequent statement."""
        running = Deferred.fromCoroutine(self._connection.query_often(*args))
        return cast("list[Any]", await awaitable(running))


class _ForTasks(AbstractAsyncContextManager[C]):
    """An asynchronous context manager of Twisted's that any coroutine can enter."""

    def __init__(self, manager: AbstractAsyncContextManager[C]) -> None:
        self._manager = manager

    async def __aenter__(self) -> C:
        entering: Any = self._manager.__aenter__()
        lending: Deferred[Any] = Deferred.fromCoroutine(entering)
        try:
            return cast("C", _Adapted(await awaitable(lending)))
        except asyncio.CancelledError as error:
            lending.addCallback(self._leave, error)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        leaving: Any = self._manager.__aexit__(kind, error, traceback)
        return cast("bool | None", await awaitable(Deferred.fromCoroutine(leaving)))

    def _leave(self, lent: C | None, error: BaseException) -> Deferred[Any] | None:
        """Put back a connection that came in the turn in which its task was cancelled."""
        if lent is None:
            return None
        leaving: Any = self._manager.__aexit__(type(error), error, None)
        return Deferred.fromCoroutine(leaving)
