"""What a node does beside its jobs: rotates lanes, archives and drops history, and holds work types
on a version of the application that fails as no older one.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IProcessTransport
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from txqueue.model.run_log import WAIT_BOUNDS
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import IMasterReactor, Periodic, Wakeups
from txqueue.policy.findings.obstacles import HeldType
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.run_functions import HeartbeatReply

if TYPE_CHECKING:
    from txqueue.node.settings import NodeSettings
    from txqueue.node.workers.completions import Completions
    from txqueue.node.workers.starter import WorkerVersions
    from txqueue.node.workers.workload import Workers


EVERY = 3600.0
AFTER_FAILURE = 600.0
LONGEST_SAID = 1000


@define(eq=False, repr=False, slots=False)
class Archiving(Periodic):
    """Archives days of history past retention, if the queue has an archive.

    All nodes check; one node at a time archives.

    Args:
        clock: The reactor: times the checks, and starts the process.
        functions: The stored functions.
        dsn: The DSN of the database.
        schema: The name of the schema.
    """

    name = "archiving"

    if TYPE_CHECKING:
        # Declared in the class itself it would follow the fields of the base that need it.
        _clock: IMasterReactor
    _functions: StoredFunctions
    _dsn: str
    _schema: str
    _process: IProcessTransport | None = field(init=False, default=None)

    async def step(self) -> float | None:
        """Archive the days that are due."""
        if not await self._functions.archive_due():
            return EVERY
        status, output = await self._run()
        if status == 0:
            self.log.info("{said}", said=output or "another node is archiving")
            return EVERY
        if self.running:
            self.log.warn("history was not archived, and so was not dropped: {said}", said=output)
        return AFTER_FAILURE

    def stopService(self) -> Deferred[None] | None:
        """Stop, and end the archiving process; days not verified yet stay in the database."""
        stopping = super().stopService()
        if self._process is not None:
            with suppress(ProcessExitedAlready):
                self._process.signalProcess("TERM")
        return stopping

    async def _run(self) -> tuple[int | None, str]:
        process = _Output()
        self._process = self._clock.spawnProcess(
            process,
            sys.executable,
            [sys.executable, "-m", "txqueue.archive"],
            env={**os.environ, "TXQUEUE_DSN": self._dsn, "TXQUEUE_SCHEMA": self._schema},
        )
        try:
            return await process.ended
        finally:
            self._process = None


class _Output(ProcessProtocol):
    """Keeps the end of a process's output."""

    def __init__(self) -> None:
        self.ended: Deferred[tuple[int | None, str]] = Deferred()
        self._output = b""

    def outReceived(self, data: bytes) -> None:
        """Keep the last bytes of the output."""
        self._output = (self._output + data)[-LONGEST_SAID:]

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        """Fire `ended` with the exit status of the process and the end of its output."""
        text = " ".join(self._output.decode(errors="replace").split())
        self.ended.callback((getattr(reason.value, "exitCode", None), text))


ROTATE_BUSY, ROTATE_IDLE = 1.0, 15.0
# Each node rotates for all, so of more than this many nodes each does so more seldom, at most every
# LONGEST seconds.
ROTATING, LONGEST = 8, 60.0
HISTORY = 3600.0
# Nodes ask this often; the first of them notes the minute.
MINUTE = 30.0
# Rotate after this many claimed jobs, and after fewer once no ready job is left.
LANE_FULL, LANE_USED = 32_000, 4_000


@define(eq=False, repr=False, slots=False)
class Maintenance(Periodic):
    """Rotates lanes, often while there is work, and keeps history and its counts by minute.

    Args:
        clock: Times the steps.
        functions: The stored functions.
        workers: Tell whether the node has work.
        records: Tell whether outcomes of jobs are still to be written.
        meters: Count how long jobs waited.
        wakeups: Tell whether the node is idle, and how often such a one sends statements.
    """

    name = "maintenance"

    _functions: StoredFunctions
    _workers: Workers
    _records: Completions
    _meters: Meters
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self._history_at = float("-inf")
        self._minute_at = float("-inf")
        self._taken = 0
        self._holders: list[str] = []
        self._nodes = 1

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """Note how many nodes share the work."""
        self._nodes = reply.nodes

    def count_claimed(self, jobs: int) -> None:
        """Note the number of jobs that a claim took."""
        self._taken += jobs
        if self._taken >= (LANE_FULL if jobs else LANE_USED):
            self._taken = 0
            self.alarm.ring()

    async def step(self) -> float | None:
        """Rotate the lanes once; also create and drop history hourly, and note each minute."""
        if time.monotonic() - self._history_at > HISTORY:
            await self._functions.ensure_history()
            self._history_at = time.monotonic()
        if time.monotonic() - self._minute_at > self._wakeups.upkeep(MINUTE):
            self._meters.add_waits(await self._functions.measure_minute(WAIT_BOUNDS))
            self._minute_at = time.monotonic()
        did, self._holders = await self._functions.rotate(self._holders)
        if did or self._is_busy:
            return self._pause_for(ROTATE_BUSY)
        return self._wakeups.upkeep(self._pause_for(ROTATE_IDLE))

    def _pause_for(self, alone: float) -> float:
        """Return the pause of one of many nodes, from that of a node alone, in seconds."""
        return min(alone * max(1.0, self._nodes / ROTATING), LONGEST)

    @property
    def _is_busy(self) -> bool:
        return self._workers.load > 0 or not self._records.is_clean


# Seconds between two looks, and while no worker runs.
GUARD_EVERY, UNTIL_WORKERS = 3.0, 0.5
# Of more nodes than this, each looks more seldom.
GUARDING = 8


@define(eq=False, repr=False, slots=False)
class DeployGuard(Periodic):
    """Looks how the versions that the workers run fail, and claims no jobs of held types.

    Args:
        clock: Times the looks.
        functions: The stored functions.
        lease: The node's lease; without it the guard does not look.
        versions: Tell what the workers run; they get what is held.
        settings: Have how many failures hold a type, and which share of its runs they must be.
        wakeups: Have the claimer's alarm, and tell how many nodes there are.
    """

    name = "deploy guard"

    _functions: StoredFunctions
    _lease: Lease
    _versions: WorkerVersions
    _settings: NodeSettings
    _wakeups: Wakeups
    _known: frozenset[HeldType] = field(init=False, default=frozenset())

    def __attrs_post_init__(self) -> None:
        self._versions.hold(frozenset())

    async def step(self) -> float | None:
        """Look once, and give back what held types have failed."""
        identity, applications = self._lease.identity, self._versions.applications
        if identity is None or not applications:
            return UNTIL_WORKERS
        held = await self._functions.guard_versions(
            identity.incarnation,
            applications,
            self._versions.work_types,
            self._settings.guard_failures,
            self._settings.guard_share,
        )
        self._note([each for each in held if each.application in applications])
        if held and await self._functions.return_held():
            return 0.0
        return self._wakeups.upkeep(GUARD_EVERY * max(1.0, self._wakeups.nodes / GUARDING))

    def _note(self, held: list[HeldType]) -> None:
        """Tell what is held since the last look, and what no longer is."""
        types, before = frozenset(each.work_type for each in held), self._versions.held or ()
        for each in held:
            if each not in self._known:
                self.log.warn("{held}", held=each)
        self._known = frozenset(held)
        self._versions.hold(types)
        if released := sorted({*before} - types):
            self.log.info("released: {types}", types=", ".join(released))
            self._wakeups.claimer.ring()
