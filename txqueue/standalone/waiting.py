"""Waits for jobs to end: one connection listens for all callers of a queue, one query looks.

Nodes announce ends on that connection. A look at all awaited jobs every few seconds finds what a
lost announcement would hide; without announcements, such looks come more often.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from random import random
from time import monotonic
from typing import Any, Protocol

from attrs import define, field
from psycopg import AsyncConnection, Error

from txqueue.errors import ConfigurationError, NotPermitted
from txqueue.model.job import Job
from txqueue.policy.awaited_ends import LONGEST, EndLooks, job_ids_in
from txqueue.policy.backoff import Backoff
from txqueue.standalone.requests import (
    HEARD_WITHIN,
    LISTENS_AGAIN,
    Call,
    Target,
    announcement,
    no_notifications,
    trial,
)
from txqueue.standalone.sessions import answered, connecting, is_passing
from txqueue.store.driver.session_bounds import LONGEST_LIFE
from txqueue.store.enqueueing.encryption import closed_before
from txqueue.store.inquiries.inquiry import Rows, aanswer
from txqueue.store.inquiries.jobs import about_awaited
from txqueue.system.clock import unbroken

_log = logging.getLogger(__name__)


class Ending(Protocol):
    """What a caller waits for: a future of asyncio, or of another thread."""

    def done(self) -> bool:
        """Tell whether it has a result or an error, or was cancelled."""

    def set_result(self, result: Job | None, /) -> None:
        """Give it the ended job; None if it is gone."""

    def set_exception(self, exception: Exception, /) -> None:
        """Give it an error."""

    def exception(self) -> BaseException | None:
        """Return its error."""


@define(eq=False)
class StandaloneEndWaiter:
    """All callers of one queue that wait for jobs, in a loop of asyncio's.

    Args:
        call: Makes a call over another connection than the one that listens.
        target: The schema, and the database to listen to; without one, it looks only.
    """

    _call: Callable[[Call], Awaitable[Rows]]
    _target: Target
    _looks: EndLooks[Ending] = field(factory=EndLooks, init=False)
    _noted: asyncio.Event = field(factory=asyncio.Event, init=False)
    _looking: asyncio.Task[None] | None = field(default=None, init=False)
    _listening: asyncio.Task[None] | None = field(default=None, init=False)
    _may_request: bool = field(default=True, init=False)
    _has_warned: bool = field(default=False, init=False)

    def add(self, job_id: int, ending: Ending) -> None:
        """Add a caller, which reads the job next, and calls `look_on` if it runs."""
        self._looks.add(job_id, ending, monotonic())

    def discard(self, job_id: int, ending: Ending) -> None:
        """Forget a caller that no longer waits."""
        self._looks.awaited.discard(job_id, ending)

    async def close(self) -> None:
        """End all waits and tasks, and close the connection that listens."""
        await _ended(self._looking, self._listening)
        # A cancelled task keeps the session that it was opening.
        self._looking = self._listening = None
        for waiter, job_id in self._looks.awaited.released():
            _fail(waiter, closed_before(job_id))

    def look_on(self) -> None:
        """Look and listen from now on, while callers wait."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_on(), name="txqueue looks")
        elif not self._looks.is_listening:
            self._noted.set()
        dsn = self._target.listen_dsn
        if self._listening is None and dsn is not None and self._may_request:
            self._listening = asyncio.create_task(self._listen_on(dsn), name="txqueue ends")

    async def _look_on(self) -> None:
        """Look until no caller waits."""
        while self._looks.awaited:
            try:
                await self._look()
            except Exception as error:
                if not is_passing(error):
                    for waiter, _ in self._looks.awaited.released():
                        _fail(waiter, error)
                    return
                await asyncio.sleep(self._looks.pause_after_failure(random()))
            else:
                if self._looks.awaited:
                    await self._pause()

    async def _look(self) -> None:
        if self._listening is not None and self._looks.must_request(monotonic()):
            await self._announced()
        self._noted.clear()
        if job_ids := self._looks.due(monotonic()):
            found = await self.jobs_of(job_ids)
            for waiter, job in self._looks.awaited.told(job_ids, found):
                if not waiter.done():
                    waiter.set_result(job)

    async def jobs_of(self, job_ids: Sequence[int]) -> list[Job]:
        """Return the jobs, among those given by number, that are there."""
        return await aanswer(about_awaited(self._target.schema, job_ids), self._call)

    async def _announced(self) -> None:
        try:
            await self._call(announcement(self._target.schema))
        except NotPermitted as error:
            _log.info("looking for the ends of jobs, as the role may not ask for more: %s", error)
            self._may_request = False
            await _ended(self._listening)
            self._listening = None
            self._listens(False)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._looks.pause(monotonic())):
                await self._noted.wait()

    async def _listen_on(self, dsn: str) -> None:
        """Listen until the task is cancelled, over one connection after the other."""
        failures = Backoff(0.25, 5.0)
        while True:
            try:
                await self._listen(dsn)
            except Exception as error:
                pause = LISTENS_AGAIN if isinstance(error, ConfigurationError) else failures.take()
                self._warn(error)
            else:
                pause = 0.0
            if self._looks.is_listening:
                failures.reset()
                self._listens(False)
            await asyncio.sleep(pause)

    async def _listen(self, dsn: str) -> None:
        with connecting(dsn, "txqueue client listener") as parameters:
            connection = await AsyncConnection.connect(**parameters)
        may_be_pooled = True
        try:
            with answered():
                await connection.execute(f'listen "{self._target.channel}"'.encode())
                await self._check(connection)
                may_be_pooled = False
                self._listens(True)
                self._has_warned = False
                async with aclosing(connection.notifies(timeout=LONGEST_LIFE)) as notices:
                    async for notice in notices:
                        self._note(job_ids_in(notice.payload))
        finally:
            await unbroken(_closed(connection, may_be_pooled=may_be_pooled))

    async def _check(self, connection: AsyncConnection[Any]) -> None:
        """Check that notifications arrive, as a pooler in transaction mode drops them.

        Raises:
            ConfigurationError: When none arrives.
        """
        await self._call(trial(self._target.channel))
        arriving = connection.notifies(timeout=HEARD_WITHIN, stop_after=1)
        async with aclosing(arriving) as notices:
            async for _ in notices:
                return
        raise no_notifications()

    def _warn(self, error: Exception) -> None:
        # Once for each outage, however often listening is tried.
        level = logging.INFO if self._has_warned else logging.WARNING
        text = "looking for the ends of jobs every %g s, as listening for them fails: %s"
        _log.log(level, text, LONGEST, error)
        self._has_warned = True

    def _listens(self, is_listening: bool) -> None:
        self._looks.listens(monotonic(), is_listening=is_listening)
        self._noted.set()

    def _note(self, ended: frozenset[int] | None) -> None:
        if self._looks.awaited.note(ended):
            self._noted.set()


async def _closed(connection: AsyncConnection[Any], *, may_be_pooled: bool) -> None:
    """Close a connection that listened; a pooler would lend its backend to other clients."""
    try:
        if may_be_pooled:
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(HEARD_WITHIN):
                    await connection.execute(b"unlisten *")
    finally:
        await connection.close()


async def _ended(*tasks: asyncio.Task[None] | None) -> None:
    for task in tasks:
        # wait_for() of Python 3.11, which psycopg 3.2 uses, loses a cancellation that arrives with
        # data.
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.1)


def _fail(waiter: Ending, error: Exception) -> None:
    if not waiter.done():
        waiter.set_exception(error)
        # No caller may be left to retrieve it.
        waiter.exception()
