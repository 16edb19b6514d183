"""Notifies open pages that something has changed: one stream of server-sent events for each."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from txqueue.errors import TxqueueError
from txqueue.store.inquiries.operations import Operations
from txqueue.store.reads.dashboard import about_changes

# Seconds between two looks; one statement each, while any page is open.
EVERY = 1.0
# Seconds after which open pages refresh even if nothing changed: ages and loads do.
STILL = 20.0
# The most pages that get events; others do not refresh by themselves.
MOST = 200


Watcher = Callable[[], object]
"""Tells an open page to refresh."""


class Changes:
    """Looks once a second whether jobs or acts have changed, while any page is open.

    Args:
        clock: Times the looks.
        operations: Runs the query.
        schema: The name of the schema.
    """

    log = Logger()

    def __init__(self, clock: IReactorTime, operations: Operations, schema: str) -> None:
        self._clock = clock
        self._operations = operations
        self._schema = schema
        self._watchers: set[Watcher] = set()
        self._last: object = None
        self._notified_at = float("-inf")
        self._loop = LoopingCall(self._look)

    @property
    def is_full(self) -> bool:
        """Whether no more pages can get events."""
        return len(self._watchers) >= MOST

    def add(self, watcher: Watcher) -> None:
        """Send a page events from now on."""
        self._watchers.add(watcher)
        if not self._loop.running:
            # A new one, as a look of the one that was stopped may still run.
            self._loop = LoopingCall(self._look)
            self._loop.clock = self._clock
            self._loop.start(EVERY, now=False)

    def remove(self, watcher: Watcher) -> None:
        """Send a page no more events."""
        self._watchers.discard(watcher)
        if not self._watchers and self._loop.running:
            self._loop.stop()

    def _look(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._tell())

    async def _tell(self) -> None:
        now = self._clock.seconds()
        try:
            answer: object = await self._operations.find(about_changes(self._schema))
        except TxqueueError as error:
            # The pages then show the last figures, and why.
            answer = error.what
        if answer != self._last or now - self._notified_at >= STILL:
            self._last, self._notified_at = answer, now
            for watcher in tuple(self._watchers):
                watcher()
