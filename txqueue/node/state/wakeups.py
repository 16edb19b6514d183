"""The alarms by which one service of a node wakes another."""

from __future__ import annotations

from txqueue.node.state.periodic import Alarm
from txqueue.policy.placement.idling import WakePlace
from txqueue.policy.placement.room import JobPlace, earlier
from txqueue.store.node.replies import HeartbeatReply
from txqueue.system.clock import Clock

__all__ = ["Wakeups"]


class Wakeups:
    """The alarms of the services: each service waits for its own, and others ring it.

    Args:
        clock: Times the waits.

    Attributes:
        claimer: Rings when there may be jobs to claim.
        scheduler: Rings when a schedule may be due.
        orphans: Rings when this node may have assignments that no message brought.
        open_credit: Rings when notifications have named jobs of this node, and when the open credit
            is to be reviewed.
        reconciliation: Rings when the answer to a claim is lost.
        heartbeats: Rings when an unknown node connects, as the next heartbeat may list it.
        freed: The place of the first job that is known to have become ready since the last claim
            began; None if there is none.
        place: The node's place among the nodes that can take the same jobs; None while it is not
            known, and while the node has no room.
    """

    def __init__(self, clock: Clock) -> None:
        self.claimer = Alarm(clock)
        self.scheduler = Alarm(clock)
        self.orphans = Alarm(clock)
        self.open_credit = Alarm(clock)
        self.reconciliation = Alarm(clock)
        self.heartbeats = Alarm(clock)
        self.freed: JobPlace | None = None
        self.place: WakePlace | None = None

    def heard(self, reply: HeartbeatReply) -> None:
        """Note the node's place among the nodes that can take the same jobs."""
        number, of = reply.place, reply.places
        self.place = None if number is None or of is None else WakePlace(number, of)

    def look_for_work(self, freed: JobPlace | None = None) -> None:
        """Wake the claimer and the scheduler.

        Args:
            freed: The place of the first job that has become ready, if it is known.
        """
        if freed is not None:
            self.freed = freed if self.freed is None else earlier(freed, self.freed)
        self.claimer.ring()
        self.scheduler.ring()
