"""Keeps the connection that listens for the database's NOTIFY, and reads what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define
from twisted.internet.defer import Deferred

from txqueue.errors import ConfigurationError
from txqueue.model.assignment import Assignment, notified_job
from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.policy.placement.idling import is_about_jobs, wakes
from txqueue.store.driver.listener import PROBED, TESTED, Listener, OwnChannel
from txqueue.store.node.functions import StoredFunctions


class DatabaseNotices:
    """Wakes services by what notifications say, and passes on the jobs that they bring.

    Args:
        wakeups: Wakes the services.

    Attributes:
        on_jobs: Called with the jobs that notifications on the node's own channel have brought.
    """

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self.on_jobs: Callable[[Sequence[Assignment]], None] = lambda _: None

    def on_notices(self, texts: Sequence[str]) -> None:
        """Act on the texts of notifications for all nodes that arrived together."""
        for text in texts:
            self._wake(text)

    def on_own_notices(self, texts: Sequence[str]) -> None:
        """Act on the texts of notifications for this node that arrived together."""
        if jobs := [job for text in texts if (job := notified_job(text)) is not None]:
            self.on_jobs(jobs)

    def _wake(self, text: str) -> None:
        """Wake the claimer for jobs, if this node is one of those to wake; else, all services."""
        if not is_about_jobs(text):
            self._wakeups.look_for_work()
        elif wakes(text, self._wakeups.place):
            self._wakeups.claimer.ring()


CHECK = 1.0
# Seconds until the next check while the node is not registered yet, or a statement on the
# connection keeps it from listening on the channel of the node's run.
SOON = 0.05
# Retry: NOTIFY may work again after a failover. Seconds.
UNHEARD_RETRY = 600.0
# Each probe wakes all listening sessions of the database for a moment: of more than this many nodes
# each sends fewer. And how many probes in a row may be late or lost.
PROBING, LOST = 8, 2.5


@define(eq=False, repr=False, slots=False)
class Notifications(Periodic):
    """Keeps a listener connected; after each loss, wakes the services that may have missed jobs.

    Args:
        clock: Times the checks, which need no statement.
        listener: The listening connection.
        functions: Name the channel of the node's run.
        lease: Has the node's run.
        wakeups: Wakes the services.
    """

    name = "notifications"

    _listener: Listener
    _functions: StoredFunctions
    _lease: Lease
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self._is_deaf = False
        # Why no notification arrives, as it was said.
        self._unheard = ""

    async def step(self) -> float | None:
        """Reconnect if the connection was lost, and listen on the channel of the node's run."""
        try:
            if not await self._listener.check(self._tested, self._probed):
                # It withdraws its credit before the attempt to connect, which may take long.
                self._wakeups.open_credit.ring()
            if await self._listener.ensure(self._own_channel):
                self._wakeups.look_for_work()
                self._wakeups.doubt()
            self._unheard = ""
        except ConfigurationError as error:
            if str(error) != self._unheard:
                self.log.warn("{error}", error=error)
            self._unheard = str(error)
            return UNHEARD_RETRY
        finally:
            self._note_proof()
            # It grants no credit while no notification would arrive.
            self._wakeups.open_credit.ring()
        own = self._own_channel
        is_settled = own is not None and (self._is_deaf or self._listener.listens_on(own))
        return CHECK if is_settled else SOON

    @property
    def _probed(self) -> float:
        """Seconds between two probes."""
        return self._wakeups.upkeep(PROBED * max(1.0, self._wakeups.nodes / PROBING))

    @property
    def _tested(self) -> float:
        """Seconds after which a connection is tested that nothing passes."""
        is_proven = self._wakeups.has_notifications or self._is_deaf
        return self._wakeups.upkeep(PROBED) if self._wakeups.is_idle and is_proven else TESTED

    def _note_proof(self) -> None:
        """Note whether probes arrive; while none does, the node polls as often as without them."""
        self._wakeups.has_notifications = self._listener.is_proven(LOST * self._probed)
        is_deaf = self._listener.is_deaf
        if is_deaf and not self._is_deaf:
            self.log.warn(
                "a notification of this node to itself has not arrived: new jobs may wait for a"
                " poll, up to a second; see that no pooler in transaction mode is in between"
            )
        self._is_deaf = is_deaf

    @property
    def _own_channel(self) -> OwnChannel | None:
        if not self._lease.is_registered:
            return None
        return self._functions.channel_of(self._lease.incarnation)

    def stopService(self) -> Deferred[None] | None:
        """Stop listening."""
        self._listener.close()
        return super().stopService()
