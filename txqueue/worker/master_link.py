"""A worker's link to its master: performs the master's commands, reports what jobs did, watches the
lease, and imports the application.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from attrs import asdict, define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore, IReactorFromThreads, IReactorSocket
from twisted.internet.process import reapAllProcesses
from twisted.logger import Logger

from txqueue.logs.lines import RUN_FIELDS
from txqueue.logs.setup import let_information_pass
from txqueue.model.assignment import Assignment, SettledJob, StartedJob
from txqueue.model.work_item import known_work_types, type_version
from txqueue.policy.endings.outcome import summary_of
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.enqueueing.worksets import Parts
from txqueue.store.node.outcomes import outcomes_texts
from txqueue.system.application_files import import_app, imported_application
from txqueue.system.clock import Clock, Timer
from txqueue.system.inflight import InFlight
from txqueue.system.processes import freeze_loaded_objects, poll_children, receive_child_signal
from txqueue.wire.commands import (
    CancelRunning,
    CannotImport,
    Configure,
    Count,
    Finish,
    GiveBack,
    Hold,
    Occupy,
    Perform,
    Refuse,
    RenewLease,
    Settle,
    Start,
)
from txqueue.wire.pipe import PipeFactory, PromptPipe
from txqueue.worker.handlers.job_transaction import OwnTransactions
from txqueue.worker.handlers.running_job import HeldAssignment, RunningJob
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.running.performer import Performer
from txqueue.worker.running.waiting_run import name_blocking_run
from txqueue.worker.running.workset_runner import WorksetWork


def import_application(modules: Sequence[str], dsn: str) -> None:
    """Import the modules that define the work items.

    Args:
        modules: The names of the modules.
        dsn: The DSN of the node's database; may be empty.

    Raises:
        CannotImport: When a module cannot be imported; the traceback is printed.
    """
    if dsn:
        # A handler that connects by itself uses the database of its job.
        os.environ["TXQUEUE_DSN"] = dsn
    if "" not in sys.path:
        sys.path.insert(0, "")
    for module in modules:
        try:
            import_app(module)
        except BaseException as error:
            traceback.print_exc()
            error_text = f"{module}: {type(error).__name__}: {error}"
            raise CannotImport(error_text[:1000]) from None
    # Now, because the files may be replaced later; a forked worker has the template's answer.
    imported_application(*modules)


# Seconds in which interrupted jobs must end; other nodes take them a second after the lease's end.
GRACE = 0.5


@define(eq=False, repr=False, slots=False)
class LeaseWatch:
    """Interrupts jobs of groups when the lease expires; ends the whole process if they do not end.

    Another node may run the next job of a group as soon as this node is presumed dead, so the
    group's job here must have ended. Jobs without a group continue: they may run twice, and only
    one run counts.

    Args:
        clock: Times the lease.
        end: Interrupts jobs of groups: all, or only those of other runs of the node than an
            incarnation; returns whether some are left.
        leave: Exits the process.
    """

    _clock: Clock
    _end: Callable[[int | None], bool]
    _leave: Callable[[], None]

    def __attrs_post_init__(self) -> None:
        self._until = math.inf
        self._timer: Timer | None = None
        self._former: Timer | None = None
        self._incarnation = 0

    def renew(self, until: float, incarnation: int = 0) -> None:
        """Note that the lease of run `incarnation` holds until `until`, by the monotonic clock.

        It does not cover jobs of former runs of the node, which other nodes may have taken.
        """
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            self._end_former()
        self._until = until
        self._wait(max(0.0, until - time.monotonic()), self._look)

    def stop(self) -> None:
        """Stop watching the lease."""
        for timer in (self._timer, self._former):
            if timer is not None and timer.active():
                timer.cancel()

    def _end_former(self) -> None:
        if self._former is not None and self._former.active():
            return
        if self._end(self._incarnation):
            self._former = self._clock.callLater(GRACE, self._look_at_former)

    def _look_at_former(self) -> None:
        if self._end(self._incarnation):
            self._leave()

    def _look(self) -> None:
        left = self._until - time.monotonic()
        if left > 0:
            self._wait(left, self._look)
        elif self._end(None):
            self._wait(GRACE, self._look_again)

    def _look_again(self) -> None:
        if self._end(None):
            self._leave()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(seconds, then)


class IWorkerReactor(IStoreReactor, IReactorSocket, IReactorCore, IReactorFromThreads):
    """The reactor as a worker needs it."""


class MasterLink:
    """The link of a worker process to its master, and the services that it makes.

    Args:
        reactor: The worker's reactor; stopped when the master closes the pipe.
        shared: The descriptor of the file for `InFlight`; None for none.
    """

    log = Logger()

    def __init__(self, reactor: IWorkerReactor, shared: int | None = None) -> None:
        self._reactor = reactor
        self._shared = shared
        self._pipe = _MasterPipe(
            {
                Configure: self._configure,
                RenewLease: self._lease,
                Perform: self._perform,
                GiveBack: self._give_back,
                Hold: self._hold,
                CancelRunning: self._cancel,
            },
            lost=self._end,
        )
        self._pipe.reading = self._reading
        self._application: str | None = None
        self._performer: Performer | None = None
        self._lease_watch: LeaseWatch | None = None
        self._transactions: OwnTransactions | None = None

    def attach(self, descriptor: int) -> None:
        """Connect to the master over an open socket."""
        with socket.socket(fileno=descriptor) as pipe:
            pipe.setblocking(False)
            self._reactor.adoptStreamConnection(
                pipe.fileno(), socket.AF_UNIX, PipeFactory(self._pipe)
            )

    @property
    def is_sent(self) -> bool:
        """Whether the master can read all reports so far, even if a handler now blocks."""
        return self._pipe.is_sent

    def complete(self, assignments: Iterable[HeldAssignment]) -> None:
        """Report the done jobs of assignments."""
        self._pipe.say_each_now(Finish, map(_finish, assignments))

    def settle(self, weight: int, counts: Mapping[int, int], jobs: Sequence[SettledJob]) -> None:
        """Report jobs that ended otherwise than done, or with progress to store."""
        for job in jobs:
            job.application = self._application if job.outcome in ("retry", "failed") else None
        for outcomes in outcomes_texts(jobs):
            self._pipe.say(Settle, weight=weight, counts=json.dumps(counts), outcomes=outcomes)
            # Once for all.
            weight, counts = 0, {}

    def refuse(self, assignment: Assignment, reason: str) -> None:
        """Report an assignment whose jobs do not start, as its chunk does not have them."""
        self._pipe.say(
            Refuse,
            assignment=assignment.number,
            weight=assignment.weight,
            jobs=assignment.jobs,
            reason=reason,
        )

    def start(self, jobs: list[StartedJob]) -> None:
        """Report running jobs: those that run for longer than a second, or have new progress."""
        self._pipe.say(Start, jobs=json.dumps([asdict(job) for job in jobs]))

    def log_text(self, is_grave: bool, text: str, run: Mapping[str, Any] | None) -> None:
        """Write a text to the node's log, with the fields of its run, if any."""
        write = self.log.error if is_grave else self.log.warn
        write("{text}", text=text, **{RUN_FIELDS: run or {}})

    def count(self, tally: str) -> None:
        """Report what jobs did since the last report."""
        self._pipe.say(Count, tally=tally)

    def occupy(self, weight: int, jobs: Iterable[int], *, is_stuck: bool) -> None:
        """Report the weight and the numbers of ended jobs whose threads go on."""
        self._pipe.say(Occupy, weight=weight, jobs=json.dumps(sorted(jobs)), is_stuck=is_stuck)

    def late(self, job: RunningJob, what: str, text: str) -> None:
        """Store what came of a handler whose transaction had completed its job before."""
        Deferred.fromCoroutine(self._store_late(job, what, text))

    async def _store_late(self, job: RunningJob, what: str, text: str) -> None:
        assert self._transactions is not None
        try:
            await self._transactions.note_late(job, what, text)
        except Exception as error:
            self.log.error(
                "the {what} of job {job_id} ({type}) is not kept: {why}",
                what=what,
                job_id=job.id,
                type=job.work_type,
                why=summary_of(error),
            )

    def _configure(self, settings: str) -> dict[str, Any]:
        options = json.loads(settings)
        transactions = self._transactions = OwnTransactions(
            self._reactor,
            options["dsn"],
            options["schema"],
            options["name"],
            longest_result=options["result_limit"],
            steps_limit=options["steps_limit"],
        )
        import_application(options["app"], options["dsn"])
        self._watch_children()
        let_information_pass()
        threads = HandlerThreads.of_worker(self._reactor, options["capacity"])
        parts = partial(Parts, transactions.connections, options["schema"])
        worksets = WorksetWork(self._reactor, threads, parts)
        in_flight = InFlight(options["capacity"], self._shared)
        name_blocking_run(in_flight)
        self._performer = Performer(
            reactor=self._reactor,
            threads=threads,
            capacity=options["capacity"],
            report=self,
            open_transaction=transactions.open,
            work_through=worksets.work_through,
            steps=transactions.steps,
            in_flight=in_flight,
            longest_result=options["result_limit"],
        )
        self._performer.start()
        self._lease_watch = LeaseWatch(self._reactor, self._performer.end_groups, self._leave)
        freeze_loaded_objects()
        run = _run_version(options["app"])
        self._application = run["application"]
        return {"run": json.dumps(run)}

    def _watch_children(self) -> None:
        """Let handlers start processes: the reactor runs without signal handlers of its own."""
        receive_child_signal(partial(self._reactor.callFromThread, reapAllProcesses))
        poll_children(self._reactor, reapAllProcesses)

    def _reading(self) -> AbstractContextManager[None]:
        return nullcontext() if self._performer is None else self._performer.reading()

    def _perform(self, assignment: int, **others: Any) -> dict[str, Any]:
        self._configured.perform(Assignment(number=assignment, **others))
        return {}

    def _lease(self, until: float, incarnation: int) -> dict[str, Any]:
        self._configured.renew(until, incarnation)
        assert self._lease_watch is not None
        self._lease_watch.renew(until, incarnation)
        return {}

    def _give_back(self, most: int | None = None) -> dict[str, Any]:
        unstarted, weight = self._configured.give_up_waiting(most)
        return {"unstarted": json.dumps(unstarted), "weight": weight}

    def _hold(self, assignments: str) -> dict[str, Any]:
        return {"held": json.dumps(self._configured.held(set(json.loads(assignments))))}

    def _cancel(self, assignment: int, job_id: int, who: str, is_restart: bool) -> dict[str, Any]:
        if is_restart:
            self._configured.restart(assignment, job_id)
        else:
            self._configured.cancel(assignment, job_id, who)
        return {}

    @property
    def _configured(self) -> Performer:
        if self._performer is None:
            raise RuntimeError("the master sent a command before it configured this worker")
        return self._performer

    def _leave(self) -> None:
        self.log.critical(
            "the lease has expired, and a job of a group does not end: ending the process"
        )
        os._exit(1)

    def _end(self) -> None:
        if self._lease_watch is not None:
            self._lease_watch.stop()
        if self._performer is not None:
            self._performer.stop()
        if self._transactions is not None:
            self._transactions.close()
        self._reactor.stop()


def _finish(held: HeldAssignment) -> dict[str, Any]:
    """Return the arguments of `Finish`."""
    return {
        "lane": held.lane,
        "assignment": held.token.assignment,
        "weight": held.weight,
        "jobs": held.jobs,
        "ids": ",".join(map(str, held.done)),
        "results": held.results_text,
        "committed": ",".join(map(str, held.committed)),
    }


def _run_version(modules: Sequence[str]) -> dict[str, Any]:
    """Return what this process runs: the fields of the master's `RunVersion`."""
    application = imported_application(*modules)
    types = [type_version(cls) for cls in known_work_types()]
    return {"application": application.version, "types": types, "files": application.stamps}


class _MasterPipe(PromptPipe):
    """A prompt pipe that tells its owner which messages are read together.

    Attributes:
        reading: Returns the context in which to process the messages of one read.
    """

    reading: Callable[[], AbstractContextManager[None]]

    def dataReceived(self, data: bytes) -> None:
        """Process the messages that the received bytes complete."""
        with self.reading():
            super().dataReceived(data)
