"""The base class of services that repeat a step, what they report of an outage, the alarms by which
one service wakes another, and the events that several act on.
"""

from __future__ import annotations

import random
from typing import Final, Protocol

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorCore, IReactorProcess, IReactorSocket
from twisted.logger import Logger

from txqueue.errors import DatabaseUnavailable
from txqueue.model.humanize import duration
from txqueue.policy.backoff import Backoff
from txqueue.policy.placement.claim_plan import JobPlace, earlier
from txqueue.policy.placement.idling import LONGEST_IDLE, LOOK, IdlePace, WakePlace
from txqueue.store.driver.errors import complaint
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.driver.reconnecting import ReconnectBackoff
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.system.clock import Clock, Timer
from txqueue.wire.endpoints import INetworkReactor

# Seconds between two lines of one outage, or of one refusal.
SAID_EVERY: Final = 30.0


class Outage:
    """An outage of a node's database, as all services report it that the database does not answer.

    It ends once each of them has taken a step again. When an attempt to connect is due, one of them
    tries; when an attempt succeeds, all of them: their own pauses are longer.

    Args:
        clock: Times the outage.
        reconnects: The backoff of the node's connections; None without one.
        node: The node's name.
    """

    log = Logger()

    def __init__(
        self, clock: Clock, reconnects: ReconnectBackoff | None = None, node: str = ""
    ) -> None:
        self._clock = clock
        self._attempt: Timer | None = None
        if reconnects is not None:
            reconnects.on_failure = lambda: self._await_attempt(reconnects.left or 0.0)
            reconnects.on_recovery = self._recover
        self._name = f"the database of {node}" if node else "the database"
        # In the order in which they failed.
        self._waiting: dict[Periodic, None] = {}
        self._began = self._next = 0.0

    def fails(self, service: Periodic, error: DatabaseUnavailable) -> None:
        """Note that a service waits for the database."""
        now = self._clock.seconds()
        if not self._waiting:
            self._began = self._next = now
        self._waiting[service] = None
        if now >= self._next:
            self._next = now + SAID_EVERY
            lasts = now - self._began
            gone = f"has been gone for {duration(lasts)}" if lasts else "is gone"
            self.log.warn("{name} {gone}: {error}", name=self._name, gone=gone, error=error)

    def passes(self, service: Periodic) -> None:
        """Note that a service does not wait for the database, or no longer."""
        if service in self._waiting:
            del self._waiting[service]
            if not self._waiting:
                lasted = duration(self._clock.seconds() - self._began)
                self.log.info("{name} is back after {lasted}", name=self._name, lasted=lasted)

    def end(self) -> None:
        """Have no service try any more."""
        if self._attempt is not None and self._attempt.active():
            self._attempt.cancel()

    def _await_attempt(self, seconds: float) -> None:
        self._attempt = self._clock.callLater(seconds, self._try)

    def _try(self) -> None:
        if self._waiting:
            next(iter(self._waiting)).alarm.ring()

    def _recover(self) -> None:
        for service in [*self._waiting]:
            service.retry()


FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# Seconds after a stop in which the current step must end: a few times the patience of a statement.
# A step whose answer never comes must not keep the node from its end.
LAST_STEP = 30.0


class Alarm:
    """A sleep that `ring()` ends early; a ring between two sleeps ends the next one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = False
        self._sleeper: Deferred[None] | None = None
        self._timer: Timer | None = None

    def ring(self) -> None:
        """End the current sleep, or the next one."""
        self._rung = True
        self._wake()

    async def wait(self, seconds: float | None) -> None:
        """Sleep until the alarm rings, but at most for a number of seconds; None for no limit."""
        if not self._rung and (seconds is None or seconds > 0):
            self._sleeper = Deferred()
            if seconds is not None:
                self._timer = self._clock.callLater(seconds, self._wake)
            await self._sleeper
        self._rung = False

    def _wake(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.callback(None)


@define(eq=False, repr=False, slots=False)
class Periodic(Service):
    """A service that repeats a step, with the delay that the step returns, until stopped.

    An error in a step is logged, and the step is retried with backoff; no error ends the service.

    Args:
        clock: Times the waits.

    Attributes:
        alarm: Ends a wait early when it rings; the service's own, or one of `Wakeups`.
        outage: Notified that a step fails without the database, and that one does not.
    """

    log = Logger()

    _clock: Clock
    alarm: Alarm = field(init=False)
    outage: Outage = field(init=False)
    _backoff: Backoff = field(init=False, factory=lambda: Backoff(FIRST_PAUSE, LONGEST_PAUSE))
    # What was said of the last failure, and until when that is not said again.
    _said: str = field(init=False, default="")
    _said_until: float = field(init=False, default=0.0)
    _finished: Deferred[None] | None = field(init=False, default=None)

    @alarm.default
    def _own_alarm(self) -> Alarm:
        return Alarm(self._clock)

    @outage.default
    def _own_outage(self) -> Outage:
        return Outage(self._clock)

    async def step(self) -> float | None:
        """Take one step.

        Returns:
            Seconds until the next step, or None to wait until the alarm rings.
        """
        raise NotImplementedError

    def startService(self) -> None:
        """Start repeating the step."""
        super().startService()
        self._finished = Deferred.fromCoroutine(self._go_on())

    def stopService(self) -> Deferred[None] | None:
        """Stop after the current step, which is cancelled if it takes too long."""
        super().stopService()
        self.alarm.ring()
        if self._finished is not None:
            self._finished.addTimeout(LAST_STEP, self._clock)  # type: ignore[arg-type]  # it needs callLater only
        return self._finished

    @property
    def has_failed(self) -> bool:
        """Whether the last step failed."""
        return not self._backoff.is_fresh

    def retry(self) -> None:
        """If the last step failed, repeat it at once instead of after its pause."""
        if self.has_failed:
            self._backoff.reset()
            self.alarm.ring()

    async def _go_on(self) -> None:
        while self.running:
            await self.alarm.wait(await self._safe_step())

    async def _safe_step(self) -> float | None:
        try:
            delay = await self.step()
        except DatabaseUnavailable as error:
            self.outage.fails(self, error)
        except Exception as error:
            self.outage.passes(self)
            self._complain(error)
        else:
            self.outage.passes(self)
            self._backoff.reset()
            self._said = ""
            return delay
        # Jitter: all nodes lose the database together, but must not return together.
        return self._backoff.take(random.random())

    def _complain(self, error: Exception) -> None:
        """Log the database's refusals as one line, not often, and other errors with a traceback."""
        service, pause = self.name or type(self).__name__, self._backoff.pause
        is_cut_off = isinstance(error, CancelledError)
        said = "a step without an end was cancelled" if is_cut_off else complaint(error)
        if said is None:
            self.log.failure(
                "{service}: trying again in {pause:.1f} s", service=service, pause=pause
            )
        elif said != self._said or self._clock.seconds() >= self._said_until:
            self._said, self._said_until = said, self._clock.seconds() + SAID_EVERY
            self.log.warn(
                "{service}: {said}; trying again in {pause:.1f} s",
                service=service,
                said=said,
                pause=pause,
            )


class Wakeups:
    """The alarms of the services: each service waits for its own, and others ring it.

    Args:
        clock: Times the waits.
        pace: How often an idle node sends statements.

    Attributes:
        pace: How often an idle node sends statements.
        claimer: Rings when there may be jobs to claim.
        scheduler: Rings when a schedule may be due.
        open_credit: Rings when notifications have named jobs of this node, and when the open credit
            is to be reviewed.
        reconciliation: Rings when this node may have assignments that no message brought.
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
        self.open_credit = Alarm(clock)
        self.reconciliation = Alarm(clock)
        self.heartbeats = Alarm(clock)
        self.freed: JobPlace | None = None
        self.place: WakePlace | None = None
        self.nodes = 1
        self.is_idle = self.has_notifications = False

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """Note the node's place among the nodes that can take the same jobs; act on those seen."""
        number, of = reply.place, reply.places
        self.place = None if number is None or of is None else WakePlace(number, of)
        self.nodes = reply.nodes
        if self.is_idle and not reply.is_idle:
            # It may sleep for long, and enqueues need not notify while others are awake.
            self.claimer.ring()
            self.doubt()
        self.is_idle = reply.is_idle
        if reply.work_in is not None and reply.work_in <= max(LOOK, self.pace.idle_beat):
            self.claimer.ring()

    def doubt(self) -> None:
        """Have jobs of this node looked for that no message brought, as there may be some."""
        self.is_idle = False
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

    def on_outcome(self) -> None:
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


class IMasterReactor(IStoreReactor, INetworkReactor, IReactorProcess, IReactorSocket, IReactorCore):
    """The reactor as a master needs it."""


class RoomListener(Protocol):
    """A service that acts when workers have room."""

    def on_room(self) -> None:
        """Act on new room in a worker."""


class BacklogListener(Protocol):
    """A service that acts on the queue's backlog."""

    def on_backlog(self, *, has_backlog: bool) -> None:
        """Act on whether a claim has left ready jobs."""


class BeatListener(Protocol):
    """A service that acts on heartbeats."""

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """Act on the answer to a heartbeat."""
