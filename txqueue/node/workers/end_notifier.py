"""Notifies waiting clients of ended jobs, after the commit of their ends."""

from __future__ import annotations

from typing import Protocol

from txqueue.node.state.periodic import Periodic
from txqueue.policy.endings.end_notices import EndNotices
from txqueue.system.clock import Clock

__all__ = ["EndNotifier"]


class NotifyEnds(Protocol):
    """The stored function that notifies waiting clients."""

    async def notify_ends(self, numbers: str) -> float:
        """Notify of jobs by number; return for how many more seconds clients wait."""


class EndNotifier(Periodic):
    """Sends the notifications of ended jobs, gathered while the one before is under way.

    They are not sent by the transactions that end the jobs: PostgreSQL lets one transaction at a
    time commit with a notification. What is lost here is found by the clients' polls.

    Args:
        clock: Times the pauses.
        functions: Sends a notification.
    """

    name = "end notifier"

    def __init__(self, clock: Clock, functions: NotifyEnds) -> None:
        super().__init__(clock)
        self._clock = clock
        self._functions = functions
        self._notices = EndNotices()

    @property
    def is_awaited(self) -> bool:
        """Whether clients wait for jobs to end, as far as the last notification has told."""
        return self._notices.is_awaited(self._clock.seconds())

    def ended(self, numbers: str) -> None:
        """Note jobs whose ends are committed, by their numbers joined by commas."""
        is_first = self._notices.pause(self._clock.seconds()) is None
        self._notices.note(numbers)
        if is_first:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Send what is due; return the seconds until the next notification."""
        while (pause := self._notices.pause(self._clock.seconds())) == 0:
            await self._send()
        return pause

    async def close(self) -> None:
        """Stop, and send what is left."""
        stopping = self.stopService()
        if stopping is not None:
            await stopping
        if self._notices.pause(self._clock.seconds()) is not None:
            await self._send()

    async def _send(self) -> None:
        text = self._notices.take(self._clock.seconds())
        awaited = await self._functions.notify_ends(text)
        self._notices.answered(awaited, self._clock.seconds())
