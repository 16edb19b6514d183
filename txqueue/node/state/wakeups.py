"""The alarms by which one service of a node wakes another."""

from __future__ import annotations

from txqueue.node.state.periodic import Alarm
from txqueue.policy.placement.claim_place import JobPlace, earlier
from txqueue.policy.placement.idling import LONGEST_IDLE, LOOK, IdlePace, WakePlace
from txqueue.store.node.replies import HeartbeatReply
from txqueue.system.clock import Clock

__all__ = ["Wakeups"]


# How many heartbeats have jobs of this node looked for, once one has found that nodes have jobs:
# the first look leaves out those of the last moment, whose messages may be on their way.
LOOKS = 2


class Wakeups:
    """The alarms of the services: each service waits for its own, and others ring it.

    Args:
        clock: Times the waits.
        pace: How often an idle node sends statements.

    Attributes:
        pace: How often an idle node sends statements.
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
        nodes: How many nodes are alive, with this one.
        is_idle: Whether no node had any job at the last heartbeat.
        has_notifications: Whether notifications are known to arrive.
    """

    def __init__(self, clock: Clock, pace: IdlePace | None = None) -> None:
        self.pace = IdlePace(10.0) if pace is None else pace
        self.claimer = Alarm(clock)
        self.scheduler = Alarm(clock)
        self.orphans = Alarm(clock)
        self.open_credit = Alarm(clock)
        self.reconciliation = Alarm(clock)
        self.heartbeats = Alarm(clock)
        self.freed: JobPlace | None = None
        self.place: WakePlace | None = None
        self.nodes = 1
        self.is_idle = self.has_notifications = False
        self._looks = 0

    def heard(self, reply: HeartbeatReply) -> None:
        """Note the node's place among the nodes that can take the same jobs; act on those seen."""
        number, of = reply.place, reply.places
        self.place = None if number is None or of is None else WakePlace(number, of)
        self.nodes = reply.nodes
        if self.is_idle and not reply.is_idle:
            self._looks = LOOKS
            # It may sleep for long, and enqueues need not notify while others are awake.
            self.claimer.ring()
        if self._looks and not reply.is_idle:
            self._looks -= 1
            self.doubt()
        self.is_idle = reply.is_idle
        if reply.work_in is not None and reply.work_in <= max(LOOK, self.pace.idle_beat):
            self.claimer.ring()

    def doubt(self) -> None:
        """Have jobs of this node looked for that no message brought, as there may be some."""
        self.is_idle = False
        self.orphans.ring()
        self.reconciliation.ring()

    @property
    def beat(self) -> float:
        """Seconds between two heartbeats."""
        return self.pace.idle_beat if self.is_idle else self.pace.beat

    @property
    def slowest_claim(self) -> float:
        """The most seconds between two claims that find nothing."""
        return self.pace.claim if self.is_idle and self.has_notifications else LONGEST_IDLE

    def upkeep(self, usual: float) -> float:
        """Return the seconds between two steps of an idle service, for the usual ones."""
        return self.pace.upkeep(usual) if self.is_idle else usual

    def outcome_written(self) -> None:
        """Wake the claimer if it may sleep for long: a job may be due again soon."""
        if self.slowest_claim > LONGEST_IDLE:
            self.claimer.ring()

    def look_for_work(self, freed: JobPlace | None = None) -> None:
        """Wake the claimer and the scheduler.

        Args:
            freed: The place of the first job that has become ready, if it is known.
        """
        if freed is not None:
            self.freed = freed if self.freed is None else earlier(freed, self.freed)
        self.claimer.ring()
        self.scheduler.ring()
