"""Nodes and clients of a scenario, as real processes."""

from __future__ import annotations

import json
import os
import signal as signals
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from txqueue.demo import twistd
from txqueue.errors import TxqueueError
from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import descendants_of, is_alive, parent_of, workers_of
from txqueue_torture.history import lines_of
from txqueue_torture.processes import Leash

__all__ = ["ProcessFailed", "TortureClient", "TortureNode", "free_port", "until"]

START_LIMIT = 60.0
STOP_LIMIT, KILL_LIMIT = 60.0, 10.0
ASK_EVERY = 0.05
TAIL_LINES = 15

_REGISTERED = "select count(*) from {schema}.node_info where pid = %s and state = 'alive'"


class ProcessFailed(TxqueueError):
    """A node or a client did not start, ended by itself, or did not stop."""


class TortureNode:
    """A node of a scenario: a process ``twistd -n txqueue`` and its workers.

    Args:
        leash: Starts the process, and kills it at the end of the scenario.
        name: The node's name.
        folder: The node's folder.
        workers: The number of its worker processes.
        options: The arguments after ``txqueue`` on its command line.
        environment: The environment of the process.
        session: Opens a connection to the node's database without a proxy.
    """

    def __init__(
        self,
        leash: Leash,
        name: str,
        folder: Path,
        *,
        workers: int,
        options: Sequence[str],
        environment: Mapping[str, str],
        session: Callable[[], Session],
    ) -> None:
        self.name = name
        self.folder = folder
        self.workers = workers
        self._leash = leash
        self._session = session
        self._log = folder / "log"
        self._is_stopped = False
        self._process = leash.start([*twistd(), *options], environment, folder, self._log)

    @property
    def pid(self) -> int:
        """The master's process, and the process group of the whole node."""
        return self._process.pid

    @property
    def endpoint(self) -> str:
        """The endpoint at which clients of this host join the node."""
        return f"unix:{self.folder / quote(self.name, safe='')}.sock"

    @property
    def log(self) -> str:
        """The output of the master and its workers."""
        return self._log.read_text("utf-8", "replace")

    @property
    def is_running(self) -> bool:
        """Whether the node's master is alive."""
        return self._process.poll() is None

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers, oldest first."""
        return sorted(workers_of(self.pid))

    def started_pids(self) -> set[int]:
        """Return the process ids of what the master has started: workers, or their template too."""
        return {pid for pid in descendants_of(self.pid) if is_alive(pid)}

    def pids(self) -> list[int]:
        """Return the process ids of the master and its descendants, while the master is alive."""
        return [self.pid, *descendants_of(self.pid)]

    def wait_up(self, workers: int | None = None, within: float = START_LIMIT) -> TortureNode:
        """Wait until the node is registered and its workers have imported the application.

        Args:
            workers: How many workers to wait for; all by default.
            within: The timeout in seconds.

        Raises:
            ProcessFailed: When the node ends or takes too long.
        """
        wanted = self.workers if workers is None else workers

        def is_up() -> bool:
            if not self.is_running:
                raise self._failure(f"ended with status {self._process.returncode}")
            return len(self._ready()) >= wanted and bool(session.value(question, (self.pid,)))

        with self._session() as session:
            question = _REGISTERED.format(schema=session.schema)
            if not until(is_up, within):
                raise self._failure(f"is not up within {within:g} s")
        return self

    def signal(self, number: signals.Signals) -> None:
        """Send the master a signal."""
        os.kill(self.pid, number)

    def signal_all(self, number: signals.Signals) -> None:
        """Send a signal to the master and all its workers."""
        os.killpg(self.pid, number)

    def kill_master(self) -> int:
        """Kill the master, but not its workers; return its process id."""
        self._is_stopped = True
        self._process.kill()
        self._process.wait()
        return self.pid

    def kill(self) -> set[int]:
        """Kill the master, and wait until its workers have ended too; return all process ids."""
        workers = self.worker_pids()
        killed = {self.kill_master(), *workers}
        until(lambda: not any(map(is_alive, workers)), KILL_LIMIT)
        return killed

    def kill_worker(self, which: int = 0) -> int:
        """Kill a worker, by default the oldest; return its process id.

        Raises:
            ProcessFailed: When the node has fewer workers.
        """
        pids = self.worker_pids()
        if which >= len(pids):
            raise self._failure(f"has only the workers {pids}")
        os.kill(pids[which], signals.SIGKILL)
        return pids[which]

    def stop(self, within: float = STOP_LIMIT) -> None:
        """Drain the node by SIGTERM, and check that it exits with status 0 or by SIGTERM.

        Raises:
            ProcessFailed: When the node does not exit in time, or exits in another way.
        """
        if not self._is_stopped and self.is_running:
            self.signal(signals.SIGTERM)
            self._is_stopped = True
            try:
                status = self._process.wait(within)
            except subprocess.TimeoutExpired:
                raise self._failure(f"did not stop within {within:g} s") from None
            # twistd exits by the signal that it has received.
            if status not in (0, -signals.SIGTERM):
                raise self._failure(f"ended with status {status}")
        self._leash.kill(self._process)

    def ensure_unharmed(self) -> None:
        """Check that the node runs, unless the scenario has killed or stopped it.

        Raises:
            ProcessFailed: When the node has ended by itself.
        """
        if not self._is_stopped and not self.is_running:
            raise self._failure(f"ended with status {self._process.returncode}")

    def _ready(self) -> set[int]:
        lines = lines_of(self.folder.parent)
        up = {line["pid"] for line in lines if line["what"] == "up" and line.get("node")}
        # A forked worker has the application from its template.
        return {pid for pid in self.worker_pids() if up & ({pid, parent_of(pid)} - {self.pid})}

    def _failure(self, what: str) -> ProcessFailed:
        tail = "\n".join(f"  {self.name}: {line}" for line in self.log.splitlines()[-TAIL_LINES:])
        return ProcessFailed(f"node {self.name} {what}", f"the end of its log:\n{tail}")


class TortureClient:
    """A client of a scenario: a process ``python -m txqueue_torture.client``.

    Args:
        leash: Starts the process, and kills it at the end of the scenario.
        folder: The folder of the scenario's records.
        environment: The environment of the process.
        plan: The client's plan.
    """

    def __init__(
        self, leash: Leash, folder: Path, environment: Mapping[str, str], plan: Mapping[str, Any]
    ) -> None:
        self.name = str(plan["name"])
        self._leash = leash
        self._log = folder / f"{self.name}.log"
        command = [sys.executable, "-m", "txqueue_torture.client"]
        self._process = leash.start(command, environment, folder, self._log, talks=True)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(dict(plan)).encode())
        self._process.stdin.close()

    @property
    def pid(self) -> int:
        """The process id of the client."""
        return self._process.pid

    @property
    def log(self) -> str:
        """The output of the process."""
        return self._log.read_text("utf-8", "replace")

    def wait(self, within: float = STOP_LIMIT) -> None:
        """Wait until the client has finished its plan.

        Raises:
            ProcessFailed: When the client takes too long or ends with an error.
        """
        try:
            status = self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"client {self.name} still runs after {within:g} s") from None
        if status not in (0, -signals.SIGTERM, -signals.SIGKILL):
            tail = "\n".join(self.log.splitlines()[-TAIL_LINES:])
            raise ProcessFailed(f"client {self.name} ended with status {status}", tail)

    def stop(self, within: float = STOP_LIMIT) -> None:
        """Stop the client by SIGTERM, and wait until it has finished its unanswered enqueues."""
        if self._process.poll() is None:
            self._process.terminate()
        self.wait(within)
        self._leash.kill(self._process)


def until(predicate: Callable[[], object], within: float, every: float = ASK_EVERY) -> bool:
    """Poll a condition until it is true; return whether it became true in time."""
    deadline = time.monotonic() + within
    while not predicate():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def free_port() -> int:
    """Return a free port of this host."""
    with closing(socket.socket()) as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port
