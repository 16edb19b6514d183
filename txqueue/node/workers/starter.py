"""Starts worker processes, one by one or as forks of a template, and knows which versions of the
application they run.

`txqueue.worker.template` is the template's side, and describes the requests and reports.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from attrs import define, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IProcessTransport
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from txqueue.logs.streams import RELAY
from txqueue.node.state.periodic import IMasterReactor
from txqueue.system.application_files import Stamps, are_changed
from txqueue.wire.commands import CannotImport

# Seconds between two looks at the application's files.
LOOK = 30.0


@frozen
class RunVersion:
    """What one worker process runs.

    Attributes:
        application: The version of the application; see `imported_application`.
        types: The versions of its work types; see `type_version`.
        files: The files of the application, as the process imported them.
    """

    application: str
    types: frozenset[str]
    files: Stamps


class WorkerVersions:
    """What the workers run: a worker that is replaced may have imported other files.

    Args:
        work_types: The names of the node's work types.
        published: The versions of these types that the node has published.

    Attributes:
        claimable: The names of the work types, without held ones, and the versions that all workers
            have: a claim leaves jobs that these could not read to other nodes.
        held: The work types that the deploy guard holds on a version that a worker runs; None if
            the node has no guard.
    """

    def __init__(self, work_types: Sequence[str], published: Sequence[str]) -> None:
        self.work_types = list(work_types)
        self.held: frozenset[str] | None = None
        self._published = set(published)
        self._running: dict[int, RunVersion] = {}
        self.claimable = self.work_types
        self._looked_at = float("-inf")
        self._is_outdated = False

    def add(self, key: int, version: RunVersion) -> None:
        """Note what a worker runs, by its key."""
        self._running[key] = version
        self._looked_at = float("-inf")
        self._changed()

    def remove(self, key: int) -> None:
        """Forget a worker that has ended."""
        self._running.pop(key, None)
        self._changed()

    def _changed(self) -> None:
        types = [version.types for version in self._running.values()]
        common = frozenset.intersection(*types) if types else frozenset()
        names = [name for name in self.work_types if name not in (self.held or ())]
        self.claimable = [*names, *sorted(common)]

    @property
    def applications(self) -> list[str]:
        """The versions of the application that the workers run."""
        return sorted({version.application for version in self._running.values()})

    def hold(self, held: frozenset[str]) -> None:
        """Claim no jobs of the given work types until the next call."""
        self.held = held
        self._changed()

    def measured(self) -> Mapping[str, Any]:
        """Return what a heartbeat reports about the versions, as plain data."""
        running = self._running.values()
        types = {name for version in running for name in version.types}
        served = {name for name in types if name.rpartition("#")[0] in self.work_types}
        differ = {"type_versions": sorted(served)} if served - self._published else {}
        return {
            "applications": self.applications,
            "is_outdated": self._look(),
            **({} if self.held is None else {"held": sorted(self.held)}),
            **differ,
        }

    def _look(self) -> bool:
        """Tell whether files of the application have changed since a worker imported them."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK:
            self._looked_at = now
            files = {version.application: version.files for version in self._running.values()}
            self._is_outdated = any(map(are_changed, files.values()))
        return self._is_outdated


Ended = Callable[[str], None]
"""Called at the end of a process, with the status or signal in words."""

PIPE_FD, SHARED_FD = 3, 4
WORKER: Final = "txqueue.worker"


class StartedWorker(Protocol):
    """A worker process that was started."""

    @property
    def pid(self) -> int:
        """The process id; 0 if it is not known yet."""

    def kill(self) -> None:
        """Kill the process, unless it has ended."""


class WorkerStarter(Protocol):
    """Starts worker processes, for the pool of them."""

    @property
    def obstacle(self) -> str | None:
        """Why processes are started one by one although they should be forked; None if not so."""

    def prepare(self) -> Deferred[None]:
        """Return a Deferred that fires when a process can be started.

        It fails with `CannotImport` or another error if there can be none now; the caller may try
        again later.
        """

    def start(self, ended: Ended, pipe: int, shared: int) -> StartedWorker:
        """Start a process, after `prepare`.

        Args:
            ended: Called at its end.
            pipe: The descriptor of its end of the pipe; the caller closes it afterwards.
            shared: The descriptor of the file for `InFlight`; likewise.

        Raises:
            OSError: When the process cannot be started.
        """

    def stop(self) -> Deferred[None]:
        """Start no more processes; the Deferred fires when nothing of the starter is left."""


class SpawningStarter:
    """Starts each worker as a program of its own, which imports the application itself.

    Args:
        reactor: Starts the processes.
    """

    def __init__(self, reactor: IMasterReactor) -> None:
        self._reactor = reactor

    @property
    def obstacle(self) -> str | None:
        """None: the processes should not be forked."""
        return None

    def prepare(self) -> Deferred[None]:
        """Return a fired Deferred: a process can be started at any time."""
        return succeed(None)

    def start(self, ended: Ended, pipe: int, shared: int) -> StartedWorker:
        """Start a process.

        Raises:
            OSError: When the process cannot be started.
        """
        descriptors = {PIPE_FD: pipe, SHARED_FD: shared}
        return _SpawnedWorker(run_module(self._reactor, _ProcessEnd(ended), WORKER, descriptors))

    def stop(self) -> Deferred[None]:
        """Return a fired Deferred: the starter has nothing to end."""
        return succeed(None)


class _SpawnedWorker:
    """A worker that is a child of the master."""

    def __init__(self, process: IProcessTransport) -> None:
        self._process = process
        # Twisted forgets the number once the process has ended.
        self.pid = process.pid or 0

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        if self._process.pid is not None:
            self._process.signalProcess("KILL")


class _ProcessEnd(ProcessProtocol):
    """Reports the signal or status with which a process ends."""

    def __init__(self, ended: Ended) -> None:
        self._on_end = ended

    def processEnded(self, reason: Failure) -> None:
        self._on_end(end_of(reason))


def run_module(
    reactor: IMasterReactor,
    protocol: ProcessProtocol,
    module: str,
    descriptors: Mapping[int, int | str],
) -> IProcessTransport:
    """Start a process of this Python that runs a module, and writes to the log of this process.

    Args:
        reactor: Starts the process.
        protocol: Follows the process.
        module: The module's name.
        descriptors: Further descriptors of the process, as spawnProcess takes them.

    Raises:
        OSError: When the process cannot be started.
    """
    process: IProcessTransport = reactor.spawnProcess(
        protocol,
        sys.executable,
        [sys.executable, "-m", module],
        env=os.environ,
        childFDs={0: 0, **RELAY.streams(), **descriptors},
    )
    return process


def end_of(reason: Failure) -> str:
    """Return in words how a process of Twisted's ended."""
    ended: Any = reason.value
    return end_text(ended.signal, ended.exitCode)


def end_text(number: int | None, status: int | None) -> str:
    """Return in words how a process ended: by a signal, or with a status if that is None."""
    if number is None:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(number).name}"
    except ValueError:
        return f"by signal {number}"


REQUESTS_FD, REPORTS_FD = 3, 4
TEMPLATE: Final = "txqueue.worker.template"
# Timeouts in seconds: to import the application, to answer a request to fork or kill a worker, and
# to exit if the application does not allow forking.
START_PATIENCE, ANSWER_PATIENCE, EXIT_PATIENCE = 300.0, 30.0, 1.0


class _TemplateEnded(Exception):
    """The template has ended."""

    def __init__(self, how: str, doing: str) -> None:
        super().__init__(f"the template of the workers ended {how}{doing}")


class _CannotFork(Exception):
    """The application does not allow the template to fork; the text says what the import did."""


@define(eq=False, repr=False, slots=False)
class ForkingStarter:
    """Forks the workers from a template process, which it starts again when that has died.

    If the application does not allow forking, this starter passes all calls to another one.

    Args:
        reactor: Starts the template, and times its start.
        settings: The settings of a worker; the template gets ``app`` and ``dsn`` of them.
        otherwise: Starts the workers of an application that does not allow forking.
        is_demanded: Whether an operator has demanded that workers are forked.

    Attributes:
        obstacle: Why the application does not allow forking; None if it does, or is not imported.
    """

    log = Logger()

    _reactor: IMasterReactor
    _settings: Mapping[str, Any]
    _otherwise: WorkerStarter
    _is_demanded: bool = False

    def __attrs_post_init__(self) -> None:
        self._refusal_level = LogLevel.warn if self._is_demanded else LogLevel.info
        self._is_stopping = False
        self.obstacle: str | None = None
        self._template: _TemplateProcess | None = None
        self._waiting: list[Deferred[None]] = []

    def prepare(self) -> Deferred[None]:
        """Return a Deferred that fires when the template has imported the application."""
        if self.obstacle is not None:
            return self._otherwise.prepare()
        if self._template is None:
            try:
                self._template = self._started()
            except OSError:
                failed: Deferred[None] = Deferred()
                failed.errback(Failure())
                return failed
        if self._template.is_ready:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def start(self, ended: Ended, pipe: int, shared: int) -> StartedWorker:
        """Fork a process.

        Raises:
            OSError: When the template cannot be reached.
        """
        if self.obstacle is not None:
            return self._otherwise.start(ended, pipe, shared)
        if self._template is None:
            raise ChildProcessError("the template of the workers has ended")
        return self._template.fork(ended, pipe, shared)

    def stop(self) -> Deferred[None]:
        """End the template, and the workers that still run."""
        self._is_stopping = True
        if self._template is None:
            return self._otherwise.stop()
        self._template.kill()
        return self._template.ended

    def _started(self) -> _TemplateProcess:
        settings = {name: self._settings[name] for name in ("app", "dsn")}
        return _TemplateProcess(self._reactor, settings, self._on_ready, self._on_end)

    def _on_ready(self) -> None:
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(None)

    def _on_end(self, why: Exception, was_ready: bool) -> None:
        """Let the callers that wait start workers otherwise, or report why there can be none."""
        self._template = None
        if was_ready:
            if not self._is_stopping:
                self.log.warn("{why}, and its workers with it", why=why)
            return
        if isinstance(why, _CannotFork):
            self.obstacle = str(why)
            self.log.emit(
                self._refusal_level,
                "workers are started one by one: importing the application {why}",
                why=why,
            )
            self._on_ready()
            return
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.errback(Failure(why))


@define(eq=False, repr=False, slots=False)
class _ForkedWorker:
    """A worker that is a child of the template."""

    _template: _TemplateProcess
    _key: int
    ended: Ended

    def __attrs_post_init__(self) -> None:
        self.pid = 0

    def kill(self) -> None:
        """Make the template kill the process, unless the template has already waited for it.

        The master itself cannot tell whether another process has got the number meanwhile.
        """
        self._template.kill_worker(self._key)


@define(eq=False, repr=False, slots=False)
class _TemplateProcess(ProcessProtocol):
    """A template process.

    Args:
        reactor: Starts the process.
        settings: Its settings: ``app`` and ``dsn``.
        report_ready: Called when it has imported the application.
        report_end: Called when it has ended: with the reason, and whether it was ready.

    Attributes:
        is_ready: Whether it has imported the application.
        ended: Fires when it has ended.

    Raises:
        OSError: When the process cannot be started.
    """

    _reactor: IMasterReactor
    _settings: Mapping[str, Any]
    _report_ready: Callable[[], None]
    _report_end: Callable[[Exception, bool], None]

    def __attrs_post_init__(self) -> None:
        self.is_ready = False
        self.ended: Deferred[None] = Deferred()
        self._why: Exception | None = None
        self._rest = b""
        self._last_key = 0
        self._workers: dict[int, _ForkedWorker] = {}
        self._requests, theirs = socket.socketpair()
        self._requests.setblocking(False)
        with theirs:
            descriptors: dict[int, int | str] = {REQUESTS_FD: theirs.fileno(), REPORTS_FD: "r"}
            self._process = run_module(self._reactor, self, TEMPLATE, descriptors)
        self._patience = self._reactor.callLater(START_PATIENCE, self.kill)
        self._request(self._settings)

    def fork(self, ended: Ended, pipe: int, shared: int) -> StartedWorker:
        """Fork a worker.

        Args:
            ended: Called at its end.
            pipe: The descriptor of its end of the pipe; the caller closes it afterwards.
            shared: The descriptor of the file for `InFlight`; likewise.

        Raises:
            OSError: When the template cannot be reached.
        """
        self._last_key += 1
        self._request({"start": self._last_key}, [pipe, shared])
        self._expect_report()
        worker = _ForkedWorker(self, self._last_key, ended)
        self._workers[self._last_key] = worker
        return worker

    def kill_worker(self, key: int) -> None:
        """Kill a worker, unless it has ended."""
        # A template that cannot be reached is ending, and its workers with it.
        with suppress(OSError):
            self._request({"kill": key})
            self._expect_report()

    def _expect_report(self) -> None:
        # A template that is stuck would leave its dead workers without successors.
        if not self._patience.active():
            self._patience = self._reactor.callLater(ANSWER_PATIENCE, self.kill)

    def kill(self) -> None:
        """Kill the template, and so all of its workers."""
        if self._process.pid is not None:
            self._process.signalProcess("KILL")

    def _request(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        # Requests are short: the socket takes them as a whole, or refuses them.
        socket.send_fds(self._requests, [json.dumps(request).encode() + b"\n"], descriptors)

    # Calls by Twisted.

    def childDataReceived(self, childFD: int, data: bytes) -> None:  # noqa: ARG002 - there is one
        """Process the reports that the received bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_report(json.loads(line))

    def processExited(self, reason: Failure) -> None:  # noqa: ARG002 - Twisted's signature
        """Expect no more reports: processes that the application has forked keep the pipe open."""
        self._process.closeChildFD(REPORTS_FD)

    def processEnded(self, reason: Failure) -> None:
        """Report the end of the template and of all its workers."""
        how = end_of(reason)
        self._requests.close()
        self._stop_waiting()
        doing = "" if self.is_ready else f" as it imported {', '.join(self._settings['app'])}"
        self._report_end(self._why or _TemplateEnded(how, doing), self.is_ready)
        for worker in list(self._workers.values()):
            worker.ended(f"with its template, which ended {how}")
        self.ended.callback(None)

    def _stop_waiting(self) -> None:
        if self._patience.active():
            self._patience.cancel()

    def _dismiss(self, why: Exception) -> None:
        """Let the template exit, which ends what the application has started."""
        self._why = why
        self._requests.close()
        self._patience = self._reactor.callLater(EXIT_PATIENCE, self.kill)

    def _on_report(self, report: dict[str, Any]) -> None:
        self._stop_waiting()
        match report:
            case {"ready": _}:
                self.is_ready = True
                self._report_ready()
            case {"obstacle": why}:
                self._dismiss(_CannotFork(why))
            case {"cannot_import": why}:
                self._dismiss(CannotImport(why))
            case {"started": key, "pid": pid}:
                self._workers[key].pid = pid
            case {"ended": key, "signal": number, "status": status}:
                self._workers.pop(key).ended(end_text(number, status))
            case {"failed": key, "why": why}:
                self._workers.pop(key).ended(f"before it ran ({why})")
            case {"killed": _}:
                pass  # Its end has a report of its own.
