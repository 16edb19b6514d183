"""One other master as this one sees it: what the database says of it, and its connection."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from txqueue.policy.balancing import NodeReport
from txqueue.system.clock import Clock, Timer
from txqueue.wire.peer_commands import Kept, Lives, ReportLoad, Steal, Take, WakePeer
from txqueue.wire.peer_connection import PeerPipe

__all__ = ["PATIENCE", "Peer", "joined", "numbers_in"]

# Patience with an answer; seconds.
PATIENCE = 5.0
# And with that of a suspect: its lease is about to be out.
SOON = 1.0
# Assignments in one message.
MOST_NUMBERS = 1_000
# What the database numbers them with.
LARGEST_NUMBER = 2**63 - 1
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
# Two nodes that start together may not know each other yet; a failure is told from this pause on.
LOUD_PAUSE = 8 * FIRST_PAUSE


@define(eq=False)
class Peer:
    """One other master.

    Attributes:
        row: What the last heartbeat said of it.
        pipe: The connection to it; None while there is none.
        report: What it last said of itself, over that connection.
        heard_at: When it last said anything, by the reactor's clock.
        handed: Assignments that it is to be told of in this turn of the reactor.
        dialling: The attempt to reach it; None while there is none.
        retry: The next attempt.
        is_asked: Whether it is being asked for work.
        answered_at: When it was last told that this node lives, by the monotonic clock.
    """

    row: dict[str, Any]
    pipe: PeerPipe | None = None
    report: NodeReport | None = None
    heard_at: float = float("-inf")
    handed: list[int] = field(factory=list)
    dialling: Deferred[None] | None = None
    retry: Timer | None = None
    is_asked: bool = False
    answered_at: float = float("-inf")
    _pause: float = FIRST_PAUSE

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.row["name"])

    @property
    def incarnation(self) -> int:
        """The run of it."""
        return int(self.row["incarnation"])

    @property
    def is_sought(self) -> bool:
        """Whether it is connected, or about to be."""
        waits = self.retry is not None and self.retry.active()
        return self.pipe is not None or self.dialling is not None or waits

    @property
    def is_lasting_trouble(self) -> bool:
        """Whether failures have come for a while: true once in a series."""
        return self._pause == LOUD_PAUSE

    def describe(self) -> dict[str, Any]:
        """Say whether it is connected, and how loaded it says it is."""
        said = self.report
        return {
            "name": self.name,
            "is_connected": self.pipe is not None,
            "outstanding": said.outstanding if said else None,
            "lag": said.lag if said else None,
            "version": said.version if said else None,
        }

    def next_pause(self) -> float:
        """Return how long to wait before it is tried again: longer each time, never in step."""
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1.5)

    def linked(self, pipe: PeerPipe, now: float) -> None:
        """Take a connection that has proved to be the peer's; a former one is dead or forged."""
        former, self.pipe = self.pipe, pipe
        self.report = None
        self.heard_at = now
        if former is not None:
            former.close()

    def heard(self, report: NodeReport, now: float) -> None:
        """Take what it says of itself: the connection works."""
        self.report = report
        self.heard_at = now
        self._pause = FIRST_PAUSE

    def unlinked(self) -> None:
        """The connection is gone."""
        self.pipe = self.report = None
        self.handed.clear()

    def tell(self, report: str) -> None:
        """Say how loaded this node is."""
        if self.pipe is not None:
            self.pipe.say(ReportLoad, load=report)

    def wake(self) -> None:
        """Say that there may be work, if it has room."""
        if self.pipe is not None and self.report is not None and self.report.free > 0:
            self.pipe.say(WakePeer)

    def forward(self, clock: Clock, assignments: Sequence[int]) -> None:
        """Say that jobs are assigned to it: once a turn of the reactor, all together."""
        if self.pipe is None or not assignments:
            return
        if not self.handed:
            clock.callLater(0, self._send, clock)
        self.handed += assignments

    def _send(self, clock: Clock) -> None:
        numbers, self.handed = self.handed[:MOST_NUMBERS], self.handed[MOST_NUMBERS:]
        if self.pipe is None or not numbers:
            return
        if self.handed:
            clock.callLater(0, self._send, clock)
        answer = self.pipe.say(Take, assignments=joined(numbers)).addTimeout(PATIENCE, clock)
        # It finds what is assigned to it, told or not.
        answer.addErrback(lambda _: None)

    async def ask(self, clock: Clock, weight: int) -> tuple[list[int], int]:
        """Ask it for unstarted work; returns the assignments, and their weight."""
        if self.pipe is None:
            return [], 0
        answer = await self.pipe.say(Steal, weight=weight).addTimeout(PATIENCE, clock)
        return numbers_in(answer["assignments"]), answer["weight"]

    async def lives(self, clock: Clock) -> bool:
        """Ask it whether it lives, if it is connected."""
        if self.pipe is None:
            return False
        answer = await self.pipe.say(Lives).addTimeout(SOON, clock)
        return bool(answer["lives"])

    def kept(self) -> None:
        """Say that its lease is renewed for it."""
        if self.pipe is not None:
            self.pipe.say(Kept)

    def close(self) -> None:
        """Neither be connected nor try to be."""
        if self.retry is not None and self.retry.active():
            self.retry.cancel()
        if self.dialling is not None:
            self.dialling.cancel()
        if self.pipe is not None:
            self.pipe.close()


def joined(numbers: Sequence[int]) -> str:
    """Return numbers as a message has them."""
    return ",".join(map(str, numbers))


def numbers_in(text: str) -> list[int]:
    """Read the numbers of a message.

    Raises:
        ValueError: When one cannot be an assignment's.
    """
    numbers = [int(number) for number in text.split(",")[:MOST_NUMBERS] if number]
    if not all(0 < number <= LARGEST_NUMBER for number in numbers):
        raise ValueError("no number of an assignment")
    return numbers
