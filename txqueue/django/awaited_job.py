"""The job of a coroutine that a test runs: its calls block elsewhere, and are awaited here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async

__all__ = ["AwaitedJob"]


class _Awaited:
    """An object whose blocking methods are coroutines here.

    Args:
        target: The object.
    """

    _BLOCKING: tuple[str, ...] = ()

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        # In the thread of the caller, which has Django's connection.
        return sync_to_async(found) if name in self._BLOCKING else found


class _AwaitedTransaction(_Awaited):
    _BLOCKING = ("execute", "enqueue", "enqueue_many", "signal", "fill")


class _AwaitedStep(_Awaited):
    @property
    def txn(self) -> _AwaitedTransaction:
        """The transaction."""
        return _AwaitedTransaction(self._target.txn)

    @property
    def result(self) -> Any:
        """What the step returns."""
        return self._target.result

    @result.setter
    def result(self, value: Any) -> None:
        self._target.result = value


class _AwaitedCursor:
    """A cursor over steps.

    Args:
        cursor: The one that blocks.
    """

    _END = object()

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    @property
    def following(self) -> Any:
        """The position after this one."""
        return self._cursor.following

    @following.setter
    def following(self, position: Any) -> None:
        self._cursor.following = position

    def __aiter__(self) -> _AwaitedCursor:
        return self

    async def __anext__(self) -> Any:
        position = await sync_to_async(self._next)()
        if position is self._END:
            raise StopAsyncIteration
        return position

    def _next(self) -> Any:
        return next(self._cursor, self._END)


class AwaitedJob(_Awaited):
    """A `ThreadJob` whose calls a coroutine of asyncio's awaits, as it does those of a node's."""

    _BLOCKING = ("progress", "then", "coalesce", "wait_for", "sleep", "call")

    async def step(
        self, name: str, function: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        """Call a function or a coroutine unless an earlier run has; return what it returned."""
        plain = async_to_sync(function) if iscoroutinefunction(function) else function
        return await sync_to_async(self._target.step)(name, plain, *args, **options)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_AwaitedTransaction]:
        """Open the job's own transaction."""
        async with _awaited(self._target.transaction()) as txn:
            yield _AwaitedTransaction(txn)

    @asynccontextmanager
    async def step_transaction(self, name: str) -> AsyncIterator[_AwaitedStep]:
        """Open a transaction that is a step."""
        async with _awaited(self._target.step_transaction(name)) as step:
            yield _AwaitedStep(step)

    def cursor(self, name: str, start: Any = 0) -> _AwaitedCursor:
        """Return a position in a loop."""
        return _AwaitedCursor(self._target.cursor(name, start))


@asynccontextmanager
async def _awaited(manager: Any) -> AsyncIterator[Any]:
    """Enter a context manager that blocks."""
    value = await sync_to_async(manager.__enter__)()
    try:
        yield value
    except BaseException as error:
        leave = sync_to_async(manager.__exit__)
        if not await leave(type(error), error, error.__traceback__):
            raise
    else:
        await sync_to_async(manager.__exit__)(None, None, None)
