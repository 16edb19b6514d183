"""Runs handlers: functions, Twisted's and asyncio's coroutines, and functions in threads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from txqueue.errors import InvalidWork, KeyUnavailable, UnknownWorkType
from txqueue.model.chunk import Unreadable
from txqueue.model.foreign import derives_from
from txqueue.model.job_policy import Runtime
from txqueue.model.middleware import Layer, coroutine_layers, thread_layers
from txqueue.model.payload import decode, decoder
from txqueue.model.type_version import UNKNOWN, NotRead, type_version
from txqueue.model.work_item import WorkItem, find_work_type
from txqueue.model.workset_item import WorksetItem, WorksetJob
from txqueue.store.enqueueing.encryption import decrypted
from txqueue.worker.handlers.blocking import ReactorCalls
from txqueue.worker.handlers.layers import ended, is_coroutine, layered, layered_awaited
from txqueue.worker.handlers.thread_job import ThreadJob
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.handlers.waiting import Ended, Waiting, driven, waiting_for, waiting_for_task

__all__ = ["Kind", "WorkThrough", "class_of", "kind_of", "work_of"]

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
    threaded = partial(_threaded, threads, thread_layers())
    if layers := coroutine_layers():
        inner = partial(_after_thread, threaded) if cls.runtime is Runtime.THREAD else _awaited
        within = _within_asyncio if cls.runtime is Runtime.ASYNCIO else _within
        return partial(within, layers, inner)
    if cls.runtime is Runtime.THREAD:
        return partial(_in_thread, threaded)
    if cls.runtime is Runtime.ASYNCIO:
        return _in_asyncio
    return _by_hand if inspect.iscoroutinefunction(cls.perform) else _called


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
    return Waiting(ending.addErrback(Ended.by), ending.cancel, ending.cancel)


async def _after_thread(threaded: Perform, work: WorkItem, job: Any) -> Any:
    return (await threaded(work, job)).get()


def _by_hand(work: WorkItem, job: Any) -> Any:
    return driven(copy_context(), work.perform(job))


def _called(work: WorkItem, job: Any) -> Any:
    context = copy_context()
    value = context.run(work.perform, job)
    if is_coroutine(value):
        return driven(context, value)
    return waiting_for(value) if derives_from(value, Deferred) else value


def _within(layers: Sequence[Layer], inner: Perform, work: WorkItem, job: Any) -> Any:
    return driven(copy_context(), layered_awaited(layers, partial(inner, work, job), job)())


def _within_asyncio(layers: Sequence[Layer], inner: Perform, work: WorkItem, job: Any) -> Waiting:
    return waiting_for_task(layered_awaited(layers, partial(inner, work, job), job)())


async def _awaited(work: WorkItem, job: Any) -> Any:
    return await ended(work.perform(job))


def _in_asyncio(work: WorkItem, job: Any) -> Waiting:
    return waiting_for_task(work.perform(job))
