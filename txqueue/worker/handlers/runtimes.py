"""Runs handlers: functions, Twisted's and asyncio's coroutines, and functions in threads; with the
application's middleware around them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import partial
from types import CoroutineType
from typing import Any, Final

from attrs import frozen
from twisted.internet.defer import Deferred

from txqueue.errors import InvalidWork, KeyUnavailable, UnknownWorkType
from txqueue.model.assignment import Unreadable
from txqueue.model.directives import DIRECTIVES, Layer, coroutine_layers, thread_layers
from txqueue.model.foreign import class_name, derives_from, is_a, looked
from txqueue.model.job_policy import Runtime
from txqueue.model.payload import decode, decoder
from txqueue.model.work_item import UNKNOWN, NotRead, WorkItem, find_work_type, type_version
from txqueue.model.workset_item import WorksetItem, WorksetJob
from txqueue.store.enqueueing.awaited_calls import AwaitedCall
from txqueue.store.enqueueing.encryption import decrypted
from txqueue.worker.handlers.thread_job import ThreadJob
from txqueue.worker.handlers.threads import HandlerThreads, ReactorCalls
from txqueue.worker.handlers.waiting import Ended, Waiting, driven, waiting_for, waiting_for_task

Call = Callable[[], Any]
_NOTHING: Final = object()


class _Next:
    """The `call_next` of one middleware and one run; usable once, as the handler runs once."""

    __slots__ = ("_awaited", "_call", "_value")

    def __init__(self, call: Call) -> None:
        self._call: Call | None = call
        self._awaited: Coroutine[Any, Any, Any] | None = None
        self._value: Any = _NOTHING

    def __call__(self) -> Any:
        call = self._taken()
        try:
            self._value = call()
        except BaseException as error:
            self._note(error)
            raise
        return self._value

    def _taken(self) -> Call:
        call, self._call = self._call, None
        if call is None:
            raise RuntimeError("call_next() was called twice; to run again, raise an error")
        return call

    def _note(self, error: BaseException) -> None:
        self._value = error if is_a(error, *DIRECTIVES) else None

    def passed(self, value: Any, layer: Layer) -> Any:
        """Return what a middleware has returned, or else what the handler has come to.

        Raises:
            RuntimeError: When the middleware has left out the handler without another outcome.
        """
        if self._value is _NOTHING and (value is None or self._call is None):
            name = looked(lambda: layer.__name__, class_name(layer))
            done = "called" if self._call else "awaited"
            if self._awaited is not None:
                self._awaited.close()
            raise RuntimeError(
                f"the middleware {name} has not {done} call_next(), so the handler has not run;"
                " end it by: return await call_next(), without await in threads; or return or"
                " raise another outcome, such as Discard"
            )
        return self._value if value is None else value


class _AwaitedNext(_Next):
    """The same of a middleware that is a coroutine."""

    __slots__ = ()

    def __call__(self) -> Any:
        self._awaited = self._await(self._taken())
        return self._awaited

    async def _await(self, call: Call) -> Any:
        try:
            self._value = await call()
        except BaseException as error:
            self._note(error)
            raise
        return self._value


def layered(layers: Sequence[Layer], call: Call, job: Any) -> Call:
    """Return a call with middleware of threads around it, the first one outermost."""
    for layer in reversed(layers):
        call = partial(_passed_through, layer, call, job)
    return call


def _passed_through(layer: Layer, call: Call, job: Any) -> Any:
    call_next = _Next(call)
    return call_next.passed(layer(call_next, job), layer)


def layered_awaited(layers: Sequence[Layer], call: Call, job: Any) -> Call:
    """Return a call with middleware that is coroutines around it, the first one outermost."""
    for layer in reversed(layers):
        call = partial(_awaited_through, layer, call, job)
    return call


async def _awaited_through(layer: Layer, call: Call, job: Any) -> Any:
    call_next = _AwaitedNext(call)
    return call_next.passed(await layer(call_next, job), layer)


def is_coroutine(value: object) -> bool:
    """Tell whether a handler has returned a coroutine."""
    return is_a(value, CoroutineType, AwaitedCall)


async def ended(value: Any) -> Any:
    """Wait for what a handler has returned, if that is a coroutine or a Deferred."""
    is_awaited = is_coroutine(value) or derives_from(value, Deferred)
    return await value if is_awaited else value


Perform = Callable[[WorkItem, Any], Any]
WorkThrough = Callable[[type[WorksetItem], Any], Coroutine[Any, Any, Any]]
"""Runs one job of a workset: takes parts of the workset and processes their items."""


def class_of(work_type: str) -> type[WorkItem]:
    """Return the class of a work type that the node has published.

    Raises:
        NotRead: When the application's files were replaced since, by ones without that class.
    """
    try:
        return find_work_type(work_type)
    except UnknownWorkType as error:
        raise NotRead(error, work_type + UNKNOWN) from None


@frozen
class Kind:
    """What a worker needs of a work type, prepared once.

    Attributes:
        cls: The class of the work items.
        structure: Makes a work item from a payload: ``structure(payload, cls)``.
        begin: Starts ``perform`` and returns its value, or a `Waiting` if the handler waits.
        takes_thread: Whether the handler runs in a thread.
    """

    cls: type[WorkItem]
    structure: Callable[[Any, Any], WorkItem]
    begin: Callable[[WorkItem, Any], Any]
    takes_thread: bool = False

    def work(self, payload: Any) -> WorkItem:
        """Make a work item from a payload.

        Raises:
            NotRead: When the payload does not fit the class; the message names the field.
            InvalidWork: When it fits no version of any class, as it is not a JSON object.
            KeyUnavailable: When the payload is encrypted, and this process cannot decrypt it.
        """
        try:
            return self.structure(payload, self.cls)
        except KeyUnavailable:
            raise
        except Exception as error:
            raise self._not_read(payload, error) from None

    def _not_read(self, payload: Any, error: Exception) -> InvalidWork:
        if isinstance(payload, Unreadable):
            return InvalidWork(
                f"the payload does not fit {self.cls.work_type}: {payload.reason}",
                "enqueue the fields that the class declares",
            )
        if not isinstance(error, InvalidWork):
            error = self._misfit(payload)
        is_anyones = isinstance(payload, dict)
        return NotRead(error, type_version(self.cls)) if is_anyones else error

    def _misfit(self, payload: Any) -> InvalidWork:
        """Decode again, to find which field is wrong."""
        try:
            decode(self.cls, payload)
        except InvalidWork as error:
            return error
        complaint = f"the payload fits {self.cls.work_type} at the second try only"
        return InvalidWork(complaint, "have the class accept the same payload each time")


def kind_of(
    cls: type[WorkItem],
    threads: HandlerThreads,
    work_through: WorkThrough | None = None,
) -> Kind:
    """Prepare a work type for the jobs of this worker.

    Args:
        cls: The class of the work items.
        threads: Run threaded handlers.
        work_through: Runs the jobs of worksets.
    """

    def in_workset(work: WorkItem, job: Any) -> Waiting:
        assert work_through is not None
        assert isinstance(work, WorksetJob)
        return waiting_for(Deferred.fromCoroutine(work_through(type(work).items, job)))

    if issubclass(cls, WorksetJob):
        takes_thread = cls.items.runtime is Runtime.THREAD
        return Kind(cls, decoder(cls), in_workset, takes_thread=takes_thread)
    begin = _beginning(cls, threads)
    return Kind(
        cls=cls,
        structure=_opening if cls.encrypted else decoder(cls),
        begin=begin,
        takes_thread=cls.runtime is Runtime.THREAD,
    )


def work_of(work_type: str, payload: Any) -> WorkItem:
    """Make a work item of another job than the one that runs.

    Raises:
        InvalidWork: When the payload does not fit the class.
        KeyUnavailable: When the payload is encrypted, and this process cannot decrypt it.
        UnknownWorkType: When this process has no such class.
    """
    cls = find_work_type(work_type)
    return _opening(payload, cls) if cls.encrypted else decode(cls, payload)


def _opening(payload: Any, cls: type[WorkItem]) -> WorkItem:
    return decode(cls, decrypted(cls.work_type, "payload", payload))


def _beginning(cls: type[WorkItem], threads: HandlerThreads) -> Perform:
    """Return what starts a handler, with the application's middleware around it if there is any."""
    layers, threaded = coroutine_layers(), partial(_threaded, threads, thread_layers())
    if cls.runtime is Runtime.ASYNCIO:
        return partial(_in_asyncio, layers)
    if cls.runtime is Runtime.THREAD:
        inner = partial(_after_thread, threaded)
        return partial(_within, layers, inner) if layers else partial(_in_thread, threaded)
    return partial(_within, layers, _awaited) if layers else _called


def _threaded(
    threads: HandlerThreads, layers: Sequence[Layer], work: WorkItem, job: Any
) -> Deferred[Ended]:
    def perform(calls: ReactorCalls) -> Any:
        seen = ThreadJob(job, calls)
        return layered(layers, partial(work.perform, seen), seen)()

    return threads.run(job, perform)


def _in_thread(threaded: Perform, work: WorkItem, job: Any) -> Waiting:
    ending = threaded(work, job)
    # A thread cannot be cancelled: the worker only waits no longer for it.
    return Waiting(ending, ending.cancel, ending.cancel)


async def _after_thread(threaded: Perform, work: WorkItem, job: Any) -> Any:
    return (await threaded(work, job)).get()


def _called(work: WorkItem, job: Any) -> Any:
    context = copy_context()
    value = context.run(work.perform, job)
    if is_coroutine(value):
        return driven(context, value)
    return waiting_for(value) if derives_from(value, Deferred) else value


def _within(layers: Sequence[Layer], inner: Perform, work: WorkItem, job: Any) -> Any:
    return driven(copy_context(), layered_awaited(layers, partial(inner, work, job), job)())


def _in_asyncio(layers: Sequence[Layer], work: WorkItem, job: Any) -> Waiting:
    return waiting_for_task(layered_awaited(layers, partial(_awaited, work, job), job)())


async def _awaited(work: WorkItem, job: Any) -> Any:
    return await ended(work.perform(job))
