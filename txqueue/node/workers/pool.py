"""Starts a node's worker processes, replaces dead ones, and ends them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.model.humanize import counted
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.periodic import IMasterReactor, RoomListener
from txqueue.node.workers.process import WorkerProcess
from txqueue.node.workers.starter import WorkerStarter, WorkerVersions
from txqueue.node.workers.suspects import Suspects
from txqueue.node.workers.workload import Workers
from txqueue.policy.backoff import Backoff
from txqueue.policy.worker_limits import NO_LIMITS, Reason, WorkerLimits
from txqueue.system.clock import Timer

SHORT_LIFE = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
# Seconds in which a worker must exit after its pipe is closed.
EXIT_GRACE = 5.0


@define(eq=False, repr=False, slots=False)
class WorkerPool(Service):
    """Keeps a fixed number of worker processes running, and starts others for suspects.

    Args:
        reactor: Times the starts, and reads the pipes to the processes.
        starter: Starts the processes.
        workers: Gives jobs to the processes.
        settings: The settings that a worker gets at its start, as JSON.
        listeners: Notified when a worker has room.
        meters: Counts what jobs did, and deaths of workers.
        versions: Notified of what the workers run.
        suspects: The suspects that wait for a process.
        limits: What a worker does before it is replaced.
    """

    name = "workers"
    log = Logger()

    reactor: IMasterReactor
    starter: WorkerStarter
    _workers: Workers
    _settings: Mapping[str, Any]
    _listeners: Sequence[RoomListener]
    meters: Meters
    _versions: WorkerVersions
    _suspects: Suspects
    _limits: WorkerLimits = NO_LIMITS

    def __attrs_post_init__(self) -> None:
        self.capacity = self._workers.capacity
        self.reports = self._workers.reports
        self._last_key = 0
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._respawns: list[Timer] = []
        self._is_draining = self._is_ending = self._has_warned = False

    def startService(self) -> None:
        """Start the processes."""
        super().startService()
        self._workers.begin_import()
        for _ in range(self._workers.count):
            self._add()

    def start_apart(self) -> None:
        """Start one more process, for suspects; if that fails, it is not repeated."""
        self._add(is_apart=True)

    async def drain(self) -> None:
        """Start no more jobs, return unstarted ones, and wait for running ones."""
        self._is_draining = True
        self._workers.give_back()
        while any(worker.held for worker in self._workers.ready):
            await deferLater(self.reactor, 0.02)

    def stop_at_once(self) -> None:
        """Kill all processes and start no others; their jobs are returned without spending an
        attempt.
        """
        self._is_draining = self._is_ending = True
        self._kill()

    def stopService(self) -> Deferred[Any]:
        """End the processes; kill those that do not exit by themselves."""
        super().stopService()
        for call in self._respawns:
            if call.active():
                call.cancel()
        workers = self._workers.all
        for worker in workers:
            worker.close()
        kill = self.reactor.callLater(EXIT_GRACE, self._kill_all)
        ended = DeferredList([worker.ended for worker in workers])
        ended.addBoth(lambda _: kill.cancel() if kill.active() else None)
        return ended.addBoth(lambda _: self.starter.stop())

    def _kill(self) -> None:
        for worker in self._workers.all:
            worker.kill()

    def _kill_all(self) -> None:
        self._kill()
        # Not even a stuck starter must hold up the end of the node.
        self.starter.stop()

    # Calls by the worker processes.

    def on_report(self, worker: WorkerProcess) -> None:
        """Note that a worker has finished or returned jobs."""
        self._workers.on_report(worker)
        self.look_at(worker)
        self._tell_of_room()

    def look_at(self, worker: WorkerProcess) -> None:
        """Replace a worker that has reached a limit; end its process once it holds no job."""
        if worker.is_ending:
            self._end_if_empty(worker)
            return
        reason = worker.limits.reached(worker.started_runs, worker.memory)
        if reason and self.running and not self._is_draining:
            if self._workers.may_end:
                self._end_at_limit(worker, reason)
            else:
                worker.go_on()

    def _end_at_limit(self, worker: WorkerProcess, reason: Reason) -> None:
        """Start the successor of a worker, and give the worker no more jobs."""
        self.meters.workers_replaced[reason] += 1
        self.log.info(
            "worker process {pid} has reached its limit of {reason} after {runs}, and ends;"
            " a new one starts",
            pid=worker.pid,
            runs=counted(worker.started_runs, "run"),
            reason=reason,
        )
        self._add()
        worker.begin_end()

    def _end_if_empty(self, worker: WorkerProcess) -> None:
        if worker.is_ready and not worker.held:
            # Of a worker whose pipe is lost, the end is reported anyway.
            Deferred.fromCoroutine(worker.retire_once_told()).addErrback(lambda _: None)

    def on_worker_lost(self, worker: WorkerProcess) -> None:
        """Return to the queue the jobs of a worker whose pipe closed, and replace its process."""
        self._workers.on_lost(worker, is_blamed=not (self._is_ending or worker.is_blameless))
        # One that is retired exits by itself, after what the application has it do at its exit.
        if self.running and not worker.is_retired:
            worker.kill()
        worker.ended.addCallback(lambda _: self._replace(worker))

    def _tell_of_room(self) -> None:
        for listener in self._listeners:
            listener.on_room()

    def _add(self, *, is_apart: bool = False) -> None:
        self.starter.prepare().addCallbacks(
            lambda _: self._start(is_apart), self._not_prepared, errbackArgs=(is_apart,)
        )

    def _not_prepared(self, failure: Failure, is_apart: bool) -> None:
        self._workers.end_import()
        if self.running:
            self.log.error("a worker could not start: {error}", error=failure.value)
            self._add_later(self._backoff.take(), is_apart=is_apart)

    def _start(self, is_apart: bool) -> None:
        self._workers.end_import()
        # It may have taken a while to import the application.
        if not self.running or self._is_draining:
            return
        self._last_key += 1
        try:
            limits = NO_LIMITS if is_apart else self._limits.drawn(random.random())
            worker = WorkerProcess(self, self._last_key, is_apart=is_apart, limits=limits)
        except OSError as error:
            self.log.error("no worker process can be started: {error}", error=error)
            self._add_later(self._backoff.take(), is_apart=is_apart)
            return
        self._workers.add(worker)
        configuring = Deferred.fromCoroutine(worker.configure(self._settings))
        configuring.addCallbacks(
            lambda _: self._on_ready(worker), self._not_configured, errbackArgs=(worker,)
        )

    def _on_ready(self, worker: WorkerProcess) -> None:
        self._workers.on_ready(worker)
        self._check_size(worker)
        if worker.is_apart:
            self._suspects.on_start()
        if worker.runs is not None:
            self._versions.add(worker.key, worker.runs)
        self._tell_of_room()

    def _check_size(self, worker: WorkerProcess) -> None:
        """Warn once if a fresh worker has more memory than the limit leaves it to grow."""
        limit, raised = self._limits.memory, worker.limits.memory
        if limit and raised and raised > limit and not self._has_warned:
            self._has_warned = True
            self.log.warn(
                "a fresh worker process has {fresh} MiB of memory, too much for --worker-memory"
                " {limit}: workers end at {raised} MiB; give --worker-memory {more} or more",
                **{"fresh": worker.memory, "limit": limit, "raised": raised, "more": 2 * raised},
            )

    def _not_configured(self, failure: Failure, worker: WorkerProcess) -> None:
        worker.kill()
        # How a process ended is logged once that is known.
        if self.running and not failure.check(ConnectionDone, ConnectionLost):
            self.log.error("a worker could not start: {error}", error=failure.value)

    def _replace(self, worker: WorkerProcess) -> None:
        self._workers.remove(worker)
        self._versions.remove(worker.key)
        if not self.running or self._is_draining or worker.is_retired:
            return
        self.meters.worker_deaths += 1
        lived = self.reactor.seconds() - worker.started_at
        if lived > SHORT_LIFE:
            self._backoff.reset()
        self.log.warn(
            "worker process {pid} ended {how} after {lived:.1f} s; {next}",
            pid=worker.pid,
            how=worker.end if worker.runs is not None else f"{worker.end} while starting,",
            lived=lived,
            next=_successor(worker),
        )
        if worker.is_ending:
            return
        if worker.is_apart and worker.runs is not None:
            # Another one starts for the next suspect, at once.
            self._suspects.alarm.ring()
            return
        pause = 0 if lived > SHORT_LIFE else self._backoff.take()
        self._add_later(pause, is_apart=worker.is_apart)

    def _add_later(self, pause: float, *, is_apart: bool) -> None:
        # Whether a process for suspects is still needed is decided after the pause.
        start = self._suspects.on_start if is_apart else self._add
        self._respawns = [call for call in self._respawns if call.active()]
        self._respawns.append(self.reactor.callLater(pause, start))


def _successor(worker: WorkerProcess) -> str:
    """Return, for the log, what takes the place of a worker that has died."""
    if worker.is_ending:
        return "its successor has started"
    return "it was for suspects" if worker.is_apart else "a new one starts"
