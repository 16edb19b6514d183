"""The alarms by which one service of a node wakes another."""

from __future__ import annotations

from txqueue.node.periodic import Alarm
from txqueue.system.clock import Clock

__all__ = ["Wakeups"]

# The text of wake_masters().
JOBS = "jobs"


class Wakeups:
    """The alarms of the services: each service waits for its own, and others ring it.

    Args:
        clock: Times the waits.

    Attributes:
        claimer: Rings when there may be jobs to claim.
        scheduler: Rings when a schedule may be due.
        orphans: Rings when the message about jobs for this node may be lost.
        reconciliation: Rings when the answer to a claim is lost.
        heartbeats: Rings when an unknown peer may be in the answer to the next heartbeat.
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
        """Look for work after a notification: only for jobs, if it is only about jobs."""
        if text == JOBS:
            self.claimer.ring()
        else:
            self.look_for_work()
