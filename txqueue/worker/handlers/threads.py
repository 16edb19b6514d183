"""The threads in which handlers run, and their blocking calls: the reactor's thread does the work
meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import copy_context
from functools import partial, wraps
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    cast,
)

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from twisted.python.threadable import isInIOThread
from twisted.python.threadpool import ThreadPool

from txqueue.errors import TransactionMisused
from txqueue.model.foreign import derives_from, is_a, looked
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.enqueueing.awaited_calls import AwaitedCall
from txqueue.worker.handlers.waiting import Ended, awaited, called

if TYPE_CHECKING:
    from txqueue.worker.handlers.running_job import RunningJob


MOST_THREADS: Final = 1_000


class HandlerThreads:
    """Runs functions in threads, and tells which of them outlive their jobs.

    A thread cannot be interrupted: when a job times out, its function goes on.

    Args:
        reactor: Receives the results.
        pool: Has the threads, and is started.
        most: No job may start while so many threads are in use.
    """

    def __init__(self, reactor: IStoreReactor, pool: ThreadPool, most: int) -> None:
        self._reactor = reactor
        self._pool = pool
        self.most = most
        self._busy: dict[Any, list[ReactorCalls]] = {}
        self._leaving: dict[Any, Deferred[None]] = {}

    @classmethod
    def of_worker(cls, reactor: IStoreReactor, capacity: int) -> Self:
        """Return the threads of a worker, as many as its capacity can use."""
        most = min(max(1, capacity), MOST_THREADS)
        # A function must not wait for a thread, as its timeout would run meanwhile: a job of a
        # workset that has left one thread behind takes another one, beyond `most`.
        pool = ThreadPool(0, 2 * most, "handlers")
        # The process does not wait for a function that hangs when it exits.
        pool.threadFactory = partial(Thread, daemon=True)  # type: ignore[assignment]  # any callable
        pool.start()
        return cls(reactor, pool, most)

    @property
    def free(self) -> int:
        """How many more jobs may start a function."""
        return max(0, self.most - sum(map(len, self._busy.values())))

    def run(self, job: Any, function: Callable[[ReactorCalls], Any]) -> Deferred[Ended]:
        """Call a function in a thread, with the context variables of the caller.

        Args:
            job: The job of the function.
            function: The function; it gets what has the reactor's thread do work for it.

        Returns:
            A Deferred of how it ended; cancelling it leaves the thread behind.
        """
        calls = ReactorCalls(job, self._reactor.callFromThread)
        ending: Deferred[Ended] = Deferred(lambda _: calls.close())
        self._busy.setdefault(job, []).append(calls)
        run: Callable[..., Ended] = copy_context().run
        ended = deferToThreadPool(self._reactor, self._pool, run, called, function, calls)
        ended.addBoth(self._over, job, calls, ending)
        return ending

    def interrupt(self, job: Any) -> None:
        """End what the functions of a job wait for, as the job should end."""
        for calls in self._busy.get(job, ()):
            calls.interrupt()

    def left_by(self, job: Any) -> Deferred[None] | None:
        """Return a Deferred of the end of the threads that an ended job has left behind.

        Returns:
            None if there are none.
        """
        if job not in self._busy:
            return None
        return self._leaving.setdefault(job, Deferred())

    def _over(
        self, result: Ended | Failure, job: Any, calls: ReactorCalls, ending: Deferred[Ended]
    ) -> None:
        calls.close()
        self._busy[job].remove(calls)
        if not self._busy[job]:
            del self._busy[job]
        if ending.called:
            self._left(job)
        else:
            ending.callback(Ended.by(result) if isinstance(result, Failure) else result)

    def _left(self, job: Any) -> None:
        if job not in self._busy and job in self._leaving:
            self._leaving.pop(job).callback(None)


P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
F = TypeVar("F")

TOGETHER: Final = 1_000
"""How many values of an iterable the reactor's thread gets at a time."""


@frozen(eq=False)
class _Asked:
    """A function that the thread calls while it waits, as the reactor's thread has asked it to."""

    call: Callable[[], Ended]
    answer: Deferred[Ended]


_Replies: TypeAlias = "SimpleQueue[Ended | _Asked]"


@define(eq=False, repr=False, slots=False)
class ReactorCalls:
    """The calls of one function in a thread, which wait for the reactor's thread.

    What the function waits for ends when the worker waits no longer for the function: its calls
    raise an error, as later ones do, and the transactions that it has open are rolled back.

    Args:
        job: The job of the function.
        call: Calls a function in the reactor's thread, as ``callFromThread`` does.
        is_apart: Whether the function runs in another thread than the reactor's.
    """

    _job: RunningJob
    _call: Callable[..., object]
    _is_apart: bool = True
    _waiting: dict[Deferred[Any], Callable[[Ended], object]] = field(factory=dict, init=False)
    _entered: list[AbstractAsyncContextManager[Any]] = field(factory=list, init=False)
    _is_over: bool = field(default=False, init=False)

    def wait(self, awaitable: Awaitable[R], *, is_exit: bool = False) -> R:
        """Wait in the thread for what the reactor's thread awaits.

        Args:
            awaitable: A coroutine, or a Deferred.
            is_exit: Whether a context manager ends by it, which a cancelled job has to do as well.

        Raises:
            CancelledError: When the job should end, or the worker waits no longer for the function.
            TransactionMisused: When this is the reactor's own thread, which cannot wait.
        """
        if derives_from(awaitable, Deferred) and cast("Deferred[R]", awaitable).called:
            return _result(cast("Deferred[R]", awaitable))
        return self._wait(awaitable, SimpleQueue(), is_exit)

    def wait_calling(
        self, function: Callable[..., Any], begun: Callable[[Callable[..., Any]], Awaitable[R]]
    ) -> R:
        """Wait in the thread for what the reactor's thread awaits, and has a function called here.

        Args:
            function: The function.
            begun: Returns the awaitable; it gets what has the function called in this thread.
        """
        replies: _Replies = SimpleQueue()
        here = partial(self._asked, replies, function) if self._is_apart else function
        return self._wait(begun(here), replies)

    async def _asked(
        self, replies: _Replies, function: Callable[..., Any], *args: Any, **named: Any
    ) -> Any:
        answer: Deferred[Ended] = Deferred()
        call = partial(copy_context().run, called, partial(function, *args, **named))
        replies.put(_Asked(call, answer))
        return (await answer).get()

    def _wait(self, awaitable: Awaitable[R], replies: _Replies, is_exit: bool = False) -> R:
        if isinstance(awaitable, AwaitedCall):
            # The handler may end before the reactor's thread awaits what another thread has called.
            awaitable = awaitable.begun()
        if self._is_over:
            # The reactor may have stopped.
            self._refuse(awaitable, replies.put)
        else:
            self._call(copy_context().run, self._begin, awaitable, replies.put, is_exit)
        while isinstance(reply := self._reply(replies), _Asked):
            if not self._is_over:
                self._call(reply.answer.callback, reply.call())
        return cast("R", reply.get())

    def _reply(self, replies: _Replies) -> Ended | _Asked:
        try:
            return replies.get(block=self._is_apart and not isInIOThread())
        except Empty:
            raise TransactionMisused(
                f"job {self._job.id} would block the reactor's thread, which does the work",
                "call it in the thread of the function, or make the handler a coroutine",
            ) from None

    def _begin(
        self, awaitable: Awaitable[Any], reply: Callable[[Ended], object], is_exit: bool
    ) -> None:
        if self._is_over or (self._job.is_cancelled and not is_exit):
            self._refuse(awaitable, reply)
            return
        waiting = Deferred.fromCoroutine(awaited(cast("Any", awaitable)))
        self._waiting[waiting] = reply
        waiting.addCallback(self._end, waiting)

    def _end(self, ended: Ended, waiting: Deferred[Any]) -> None:
        if reply := self._waiting.pop(waiting, None):
            should_end = self._job.is_cancelled and is_a(ended.error, CancelledError)
            reply(Ended(error=self.refusal()) if should_end else ended)

    def _refuse(self, awaitable: Any, reply: Callable[[Ended], object]) -> None:
        # A coroutine that never began would be reported as never awaited.
        (awaitable.cancel if derives_from(awaitable, Deferred) else awaitable.close)()
        reply(Ended(error=self.refusal()))

    def refusal(self) -> CancelledError:
        """Return the error of calls when the function should end."""
        number = self._job.id
        if self._is_over:
            return CancelledError(
                f"the run of job {number} is over: its worker waits no longer for this function"
            )
        if (who := self._job.cancelled_by) is not None:
            return CancelledError(f"job {number} was cancelled by {who}")
        return CancelledError(f"the run of job {number} should end: the job may run elsewhere")

    def interrupt(self) -> None:
        """End what the function waits for, as it should end."""
        for waiting in list(self._waiting):
            looked(waiting.cancel, None)

    def close(self) -> None:
        """Wait no longer for the function: its calls fail, and its transactions are rolled back."""
        if self._is_over:
            return
        self._is_over = True
        for waiting, reply in list(self._waiting.items()):
            del self._waiting[waiting]
            reply(Ended(error=self.refusal()))
            looked(waiting.cancel, None)
        while self._entered:
            error = self.refusal()
            leaving = self._entered.pop().__aexit__(type(error), error, None)
            Deferred.fromCoroutine(awaited(cast("Any", leaving)))

    async def enter(self, manager: AbstractAsyncContextManager[R]) -> R:
        """Enter a context manager, which ends with the function at the latest."""
        value = await manager.__aenter__()
        self._entered.append(manager)
        if self._is_over:
            await self.leave(manager, self.refusal())
            raise self.refusal()
        return value

    async def leave(
        self, manager: AbstractAsyncContextManager[Any], error: BaseException | None
    ) -> bool | None:
        """Exit a context manager; without an error only if the function should not end."""
        self._entered.remove(manager)
        if error is None and self._job.is_cancelled:
            refusal = self.refusal()
            await manager.__aexit__(type(refusal), refusal, None)
            raise refusal
        traceback = None if error is None else error.__traceback__
        return await manager.__aexit__(None if error is None else type(error), error, traceback)


def _result(deferred: Deferred[R]) -> R:
    ended: list[Ended] = []
    deferred.addCallbacks(
        lambda value: ended.append(Ended(value)), lambda failure: ended.append(Ended.by(failure))
    )
    return cast("R", ended[0].get())


class Blocking(Generic[T_co]):
    """An object as a function in a thread uses it.

    Args:
        target: The object, whose methods are coroutines.
        calls: The calls of the function.
    """

    _target: T_co
    _calls: ReactorCalls

    __slots__ = ("_calls", "_target")

    def __init__(self, target: T_co, calls: ReactorCalls) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_calls", calls)

    if not TYPE_CHECKING:
        # Hidden from type checkers, for which each class names its attributes.
        def __getattr__(self, name: str) -> Any:
            return getattr(self._target, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._target, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._target, name)


class _Entering(AbstractContextManager[F], Generic[R, F]):
    """An asynchronous context manager that a function in a thread enters."""

    def __init__(
        self,
        make: partial[AbstractAsyncContextManager[R]],
        face: Callable[[R, ReactorCalls], F],
        calls: ReactorCalls,
    ) -> None:
        self._make, self._face, self._calls = make, face, calls

    def __del__(self) -> None:
        if not hasattr(self, "_manager"):
            self._make.args[0].unawaited.on_dropped(self._make)

    def __enter__(self) -> F:
        return self._face(self._calls.wait(self._enter()), self._calls)

    async def _enter(self) -> R:
        self._manager = self._make()
        return await self._calls.enter(self._manager)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return self._calls.wait(self._calls.leave(self._manager, error), is_exit=True)
        except CancelledError:
            # The function's own error says more.
            if error is None:
                raise
            return None


def direct(
    method: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[Blocking[T], P], R]:
    """Return the form of a method that awaits nothing, and runs in any thread."""

    @wraps(method)
    def call(self: Blocking[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast("R", getattr(self._target, method.__name__)(*args, **kwargs))

    return call


def blocking(
    method: Callable[Concatenate[T, P], Awaitable[R]],
) -> Callable[Concatenate[Blocking[T], P], R]:
    """Return the blocking form of a method that returns an awaitable."""

    @wraps(method)
    def call(self: Blocking[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        awaitable: Awaitable[R] = getattr(self._target, method.__name__)(*args, **kwargs)
        return self._calls.wait(awaitable)

    return call


def entering(
    method: Callable[Concatenate[T, P], AbstractAsyncContextManager[R]],
    face: Callable[[R, ReactorCalls], F],
) -> Callable[Concatenate[Blocking[T], P], AbstractContextManager[F]]:
    """Return the blocking form of a method that returns an asynchronous context manager.

    Args:
        method: The method.
        face: Makes the blocking form of the value.
    """

    @wraps(method)
    def call(self: Blocking[T], /, *args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[F]:
        make = partial(method, self._target, *args, **kwargs)
        return _Entering(make, face, self._calls)

    return call


def pieces(values: Iterable[R]) -> Iterator[list[R]]:
    """Divide values, so that an iterator runs in the thread of the function that made it."""
    remaining = iter(values)
    while piece := list(islice(remaining, TOGETHER)):
        yield piece
