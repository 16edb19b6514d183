"""Waits for jobs to end: one thread and one connection for all callers of a queue.

The thread listens for announced ends. A look at all awaited jobs every few seconds finds what a
lost announcement would hide; without announcements, such looks come more often.
"""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from random import random
from threading import Lock, Thread
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from txqueue.errors import ConfigurationError, NotPermitted
from txqueue.model.job import Job
from txqueue.policy.awaited_ends import LONGEST, EndLooks, job_ids_in
from txqueue.policy.backoff import Backoff
from txqueue.standalone.requests import HEARD_WITHIN, LISTENS_AGAIN, no_notifications
from txqueue.standalone.sessions import answered, is_passing
from txqueue.store.enqueueing.encryption import closed_before
from txqueue.sync.connections import connected

__all__ = ["BlockingEndWaiter"]

_log = logging.getLogger(__name__)
# Seconds in which the thread ends, unless the database does not answer.
_ENDS_WITHIN = 5.0


class BlockingEndWaiter:
    """All callers of one queue that wait for jobs, whatever their threads.

    Args:
        ask: Returns the jobs, among those given by number, that have ended.
        request: Requests announcements of ends for some seconds.
        notify: Notifies the channel from another connection.
        dsn: The database to listen to; None to look only.
        channel: The channel of the announcements.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[int]], list[Job]],
        request: Callable[[], object],
        notify: Callable[[], object],
        dsn: str | None,
        channel: str,
    ) -> None:
        self._ask = ask
        self._request = request
        self._notify = notify
        self._dsn = dsn
        self._channel = channel
        self._lock = Lock()
        self._looks: EndLooks[Future[Job]] = EndLooks()
        self._thread: Thread | None = None
        self._is_closed = False
        self._woken, self._waking = socket.socketpair()
        self._woken.setblocking(False)
        self._waking.setblocking(False)
        self._connection: Connection[Any] | None = None
        self._listen_at = float("-inf")
        self._failures = Backoff(0.25, 5.0)
        self._has_warned = False

    @contextmanager
    def waiting(self, job_id: int) -> Iterator[Future[Job]]:
        """Wait for a job inside the block, which reads the job, and calls `look_on` if it runs.

        Returns:
            A context manager whose value is a future of the ended job.
        """
        waiter: Future[Job] = Future()
        with self._lock:
            if self._is_closed:
                raise closed_before(job_id)
            self._looks.add(job_id, waiter, monotonic())
        try:
            yield waiter
        finally:
            with self._lock:
                self._looks.awaited.discard(job_id, waiter)

    def close(self) -> None:
        """End all waits and the thread, and close the connection that listens."""
        with self._lock:
            self._is_closed = True
            waiters = self._looks.awaited.released()
        for waiter, job_id in waiters:
            _fail(waiter, closed_before(job_id))
        self._wake()
        if self._thread is not None:
            self._thread.join(_ENDS_WITHIN)
        else:
            self._close_sockets()

    def look_on(self) -> None:
        """Look and listen from now on, while callers wait."""
        with self._lock:
            if self._thread is None and not self._is_closed:
                self._thread = Thread(target=self._run, name="txqueue ends", daemon=True)
                self._thread.start()
        self._wake()

    def _wake(self) -> None:
        # A full buffer has woken the thread already.
        with suppress(OSError):
            self._waking.send(b".")

    def _close_sockets(self) -> None:
        self._woken.close()
        self._waking.close()

    def _run(self) -> None:
        while not self._is_closed:
            pause = self._looked()
            if self._dsn is not None and self._connection is None and monotonic() > self._listen_at:
                self._listen(self._dsn)
            else:
                self._rest(pause)
        self._stop_listening()
        self._close_sockets()

    def _looked(self) -> float | None:
        """Look at what is due; return the seconds to rest, None for no limit."""
        try:
            self._look()
        except Exception as error:
            with self._lock:
                if is_passing(error):
                    return self._looks.pause_after_failure(random())
                waiters = self._looks.awaited.released()
            for waiter, _ in waiters:
                _fail(waiter, error)
        with self._lock:
            return self._looks.pause(monotonic()) if self._looks.awaited else None

    def _look(self) -> None:
        with self._lock:
            is_awaited = bool(self._looks.awaited)
            must_request = is_awaited and self._looks.must_request(monotonic())
        if must_request and self._dsn is not None:
            self._announced()
        with self._lock:
            job_ids = self._looks.due(monotonic()) if is_awaited else []
        jobs = self._ask(job_ids) if job_ids else []
        with self._lock:
            told = list(self._looks.awaited.told(jobs))
        for waiter, job in told:
            waiter.set_result(job)

    def _announced(self) -> None:
        try:
            self._request()
        except NotPermitted as error:
            _log.info("looking for the ends of jobs, as the role may not ask for more: %s", error)
            self._dsn = None
            self._stop_listening()

    def _listen(self, dsn: str) -> None:
        try:
            self._connection = connected(dsn, "txqueue client listener")
            with answered():
                self._connection.execute(f'listen "{self._channel}"'.encode())
                self._check(self._connection)
        except Exception as error:
            self._failed(error)
        else:
            self._failures.reset()
            self._listens(True)
            self._has_warned = False

    def _check(self, connection: Connection[Any]) -> None:
        """Check that notifications arrive, as a pooler in transaction mode drops them.

        Raises:
            ConfigurationError: When none arrives.
        """
        self._notify()
        if not list(connection.notifies(timeout=HEARD_WITHIN, stop_after=1)):
            # Otherwise the pooler would lend the listening backend to another client.
            connection.execute(b"unlisten *")
            raise no_notifications()

    def _rest(self, seconds: float | None) -> None:
        """Wait until an announcement arrives, a caller comes, or a time has passed."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        try:
            if self._connection is not None:
                poll.register(self._connection.fileno(), select.POLLIN)
            ready = dict(poll.poll(None if seconds is None else seconds * 1000))
            if ready.pop(self._woken.fileno(), 0):
                self._woken.recv(4096)
            if ready and self._connection is not None:
                self._receive(self._connection)
        except psycopg.Error as error:
            self._failed(error)

    def _receive(self, connection: Connection[Any]) -> None:
        notices = list(connection.notifies(timeout=0))
        with self._lock:
            for notice in notices:
                self._looks.awaited.note(job_ids_in(notice.payload))

    def _failed(self, error: Exception) -> None:
        self._warn(error)
        is_of_setup = isinstance(error, ConfigurationError)
        self._listen_at = monotonic() + (LISTENS_AGAIN if is_of_setup else self._failures.take())
        self._stop_listening()

    def _stop_listening(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._listens(False)

    def _warn(self, error: Exception) -> None:
        # Once for each outage, however often listening is tried.
        level = logging.INFO if self._has_warned else logging.WARNING
        text = "looking for the ends of jobs every %g s, as listening for them fails: %s"
        _log.log(level, text, LONGEST, error)
        self._has_warned = True

    def _listens(self, is_listening: bool) -> None:
        with self._lock:
            self._looks.listens(monotonic(), is_listening=is_listening)


def _fail(waiter: Future[Job], error: Exception) -> None:
    if not waiter.done():
        waiter.set_exception(error)
