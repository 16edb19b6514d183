"""The reactor of a worker process."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IReadDescriptor, IWriteDescriptor

__all__ = ["WorkerReactor"]


class WorkerReactor(AsyncioSelectorReactor):
    """Every runtime works on the asyncio reactor; asyncio coroutines work on no other.

    Asyncio runs what it is given in the context of the caller, and so the reactor's timers and
    sockets, which serve all jobs, in that of one job. Here they run in a context of no job.
    Coroutines, tasks and threads have contexts of their own.
    """

    def callLater(
        self, delay: float, callable: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> DelayedCall:
        """Call a function after a delay in seconds."""
        called: DelayedCall = Context().run(super().callLater, delay, callable, *args, **kwargs)
        return called

    def addReader(self, reader: IReadDescriptor) -> None:
        """Call a descriptor when there is something to read."""
        Context().run(super().addReader, reader)

    def addWriter(self, writer: IWriteDescriptor) -> None:
        """Call a descriptor when there is room to write."""
        Context().run(super().addWriter, writer)
