"""The alarms by which one service of a node wakes another."""

from __future__ import annotations

from txqueue.node.periodic import Alarm
from txqueue.system.clock import Clock

__all__ = ["Wakeups"]


class Wakeups:
    """Alarms, made before the services: each waits for its own, and any other may ring it.

    Args:
        clock: Times the waits.

    Attributes:
        claimer: Rings when there may be jobs to claim.
        scheduler: Rings when a schedule may be due.
        orphans: Rings when jobs may have been handed to the node whose message is lost.
        reconciliation: Rings when the answer to a claim is lost.
        heartbeats: Rings when a heartbeat would name a peer that is not known yet.
    """

    def __init__(self, clock: Clock) -> None:
        self.claimer = Alarm(clock)
        self.scheduler = Alarm(clock)
        self.orphans = Alarm(clock)
        self.reconciliation = Alarm(clock)
        self.heartbeats = Alarm(clock)

    def look_for_work(self) -> None:
        """Claim now, and see which schedules are due."""
        self.claimer.ring()
        self.scheduler.ring()

    def notified(self, text: str) -> None:
        """Look for work: the database has notified this node, whatever it says."""
        del text
        self.look_for_work()
