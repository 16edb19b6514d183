"""The alarms by which one service of a node wakes another."""

from __future__ import annotations

from txqueue.node.periodic import Alarm
from txqueue.system.clock import Clock

__all__ = ["Wakeups"]

# The text of a notification by wake_masters() about jobs only.
JOBS = "jobs"


class Wakeups:
    """The alarms of the services: each service waits for its own, and others ring it.

    Args:
        clock: Times the waits.

    Attributes:
        claimer: Rings when there may be jobs to claim.
        scheduler: Rings when a schedule may be due.
        orphans: Rings when this node may have assignments that no message brought.
        reconciliation: Rings when the answer to a claim is lost.
        heartbeats: Rings when an unknown node connects, as the next heartbeat may list it.
    """

    def __init__(self, clock: Clock) -> None:
        self.claimer = Alarm(clock)
        self.scheduler = Alarm(clock)
        self.orphans = Alarm(clock)
        self.reconciliation = Alarm(clock)
        self.heartbeats = Alarm(clock)

    def look_for_work(self) -> None:
        """Wake the claimer and the scheduler."""
        self.claimer.ring()
        self.scheduler.ring()

    def notified(self, text: str) -> None:
        """Wake the claimer after a NOTIFY, and also the scheduler unless it is about jobs only."""
        if text == JOBS:
            self.claimer.ring()
        else:
            self.look_for_work()
