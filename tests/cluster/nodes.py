"""Real nodes: `twistd -n txqueue` in processes of their own, watched from the test."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, Final
from uuid import uuid4

from attrs import field, mutable

from tests.cluster.database import Database
from tests.waiting import eventually, pause
from tests.without_tls import FOLDER as WITHOUT_TLS
from txqueue.system.processes import all_processes, is_alive, open_gate, parent_of, workers_of
from txqueue_torture.fork_server import PRELOADED, ForkServer
from txqueue_torture.processes import Started

ROOT: Final = Path(__file__).resolve().parents[2]
APP: Final = "tests.cluster.app"
PATIENCE: Final = 240.0
"""How long anything may take that a node does by itself: the machine may pause for seconds."""
LEASE: Final = "60"
"""A lease that no pause of the machine outlasts, for tests that are not about leases."""
TLS: Final = {"PYTHONPATH": str(ROOT)}
"""What to add to the environment of a process that needs OpenSSL."""


def command(*arguments: str, program: Sequence[str] = ("twistd", "-n", "--pidfile=")) -> list[str]:
    """The command line of a node.

    Args:
        arguments: What follows `txqueue`.
        program: Which of Twisted's programs runs it.
    """
    scripts = Path(sys.executable).parent
    return [sys.executable, str(scripts / program[0]), *program[1:], "txqueue", *arguments]


def environment(**more: str) -> dict[str, str]:
    """Our environment without what configures txqueue or PostgreSQL, and with the tree to import.

    OpenSSL is not there to import, unless `TLS` is among what to add.

    Args:
        more: What to add.
    """
    # Without cached byte code, every process of a node compiles the whole package again.
    dropped = ("TXQUEUE", "PG", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    found = os.pathsep.join(map(str, (WITHOUT_TLS, ROOT, ROOT / "laboratory")))
    return {**kept, "PYTHONPATH": found, "PYTHONUNBUFFERED": "1", **more}


FORK_SERVER: Final = ForkServer(environment(), (*PRELOADED, "txqueue.cli.root"))
"""Nodes and commands are forks of it: their imports take as long as most tests."""


@mutable(eq=False)
class Node:
    """One node: its master's process, its log, and its row in the database."""

    name: str
    folder: Path
    database: Database
    process: Started

    @property
    def log(self) -> str:
        """What the master and its workers have printed."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The master's."""
        return self.process.pid

    @property
    def info(self) -> dict[str, Any]:
        """Its row of NODE_INFO, empty if it has none."""
        return self.database.row("select * from txqueue.node_info where name = %s", self.name)

    @property
    def workers(self) -> set[int]:
        """Its worker processes that have imported the application and live."""
        ready = {int(path.name.split("-")[1]) for path in self.folder.glob("imported-*")}
        # A forked worker has the application from its template, which the workers of a node that
        # spawns them have not: their parent is the master.
        return {pid for pid in workers_of(self.pid) if ready & ({pid, parent_of(pid)} - {self.pid})}

    @property
    def templates(self) -> set[int]:
        """The processes, besides the master, that its workers are children of."""
        return {parent_of(pid) for pid in self.workers} - {0, self.pid}

    def processes(self) -> set[int]:
        """All processes that live and belong to it, orphans too: they inherit its environment."""
        mark = f"TXQUEUE_TEST_NODE={self.folder.name}".encode()
        # A forked master has the environment of the server for the kernel.
        master = {self.pid} if self.process.poll() is None else set()
        return master | {pid for pid in living() if mark in environment_of(pid)}

    async def up(self, workers: int = 1) -> "Node":
        """Wait until it is registered and the workers have imported the application."""
        deadline = time.monotonic() + PATIENCE
        while len(self.workers) < workers or self.info.get("pid") != self.pid:
            assert self.process.poll() is None, f"{self.name} ended:\n{self.log}"
            assert time.monotonic() < deadline, f"{self.name} does not come up:\n{self.log}"
            await pause(0.05)
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send the master a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the master, not its workers."""
        self.process.kill()
        self.process.wait(PATIENCE)

    async def logged(self, text: str) -> None:
        """Wait until it has logged a text: its log has a writer of its own, which may be late."""
        await eventually(lambda: text in self.log, PATIENCE)

    def ended(self, timeout: float = PATIENCE) -> int:
        """Wait until the master has ended; returns its exit status."""
        return self.process.wait(timeout)

    def stop(self) -> None:
        """Drain it, and expect a clean exit with no process left."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        self.expect_drained()

    def expect_drained(self) -> None:
        """Expect a clean exit with no process left; a second signal would cut the draining short.

        Having cleaned up, twistd ends by the signal that stopped it.
        """
        assert self.ended() == -signal.SIGTERM, self.log
        left = self.remaining()
        assert not left, f"left behind by {self.name}: {left}\n{self.log}"

    def stop_at_once(self) -> None:
        """Signal again and again: those just after the first do not count as a second."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            # It may just have ended.
            with suppress(ProcessLookupError):
                self.signal(signal.SIGTERM)
            time.sleep(0.1)
        self.ended()

    def remaining(self) -> set[int]:
        """Processes of it that do not end by themselves."""
        deadline = time.monotonic() + PATIENCE
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def destroy(self) -> None:
        """Kill whatever is left."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait(PATIENCE)


@mutable
class Nodes:
    """Starts nodes on one database, and ends them all.

    At the end each node that still runs must drain cleanly, unless the test failed.

    Attributes:
        is_piped: Whether the output of a node is a pipe, as in a container, and not a file.
        reading: Set while what comes through the pipes is read.
    """

    database: Database
    folder: Path
    is_piped: bool = False
    reading: Event = field(factory=Event)
    _nodes: list[Node] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        """Read from the beginning."""
        self.reading.set()

    def start(
        self,
        *arguments: str,
        app: str = APP,
        name: str | None = None,
        within: Sequence[str] = (),
        stdin: str = os.devnull,
        **settings: str,
    ) -> Node:
        """Start a node; call `up()` to wait for it.

        Args:
            arguments: Options of `twistd txqueue` besides the app and the name.
            app: The module with the work items.
            name: The node's name; by default one of its own.
            within: The command that runs its command line.
            stdin: The file or terminal that it reads.
            settings: More of the environment.
        """
        run = f"node-{uuid4().hex[:8]}"
        name = name or run
        folder = self.folder / run
        folder.mkdir()
        told = {
            "TXQUEUE_DSN": self.database.dsn,
            "TXQUEUE_LEASE": LEASE,
            "TXQUEUE_STATE_DIR": str(folder),
            "TXQUEUE_TEST_NODE": run,
            **settings,
        }
        words = [*within, *command("--app", app, "--name", name, *arguments)]
        with self._output(folder / "log") as log, open(stdin, opener=_apart) as reads:
            process = start_process(words, environment(**told), folder, reads, log)
        node = Node(name, folder, self.database, process)
        self._nodes.append(node)
        return node

    def _output(self, path: Path) -> IO[bytes]:
        return piped_to(path, self.reading) if self.is_piped else path.open("wb")

    def stop(self) -> None:
        """Have those that still run drain; destroy whatever is left in any case."""
        try:
            running = [node for node in self._nodes if node.process.poll() is None]
            for node in running:
                node.signal(signal.SIGTERM)
            for node in running:
                node.expect_drained()
        finally:
            self.destroy()

    def destroy(self) -> None:
        """Kill all."""
        for node in self._nodes:
            node.destroy()

    def logs(self) -> str:
        """What all have printed."""
        return "\n".join(f"--- {node.name}\n{node.log}" for node in self._nodes)


def start_process(
    words: Sequence[str], told: Mapping[str, str], folder: Path, reads: IO[str], log: IO[bytes]
) -> Started:
    """Start a process with a session of its own."""
    if reads.name == os.devnull and FORK_SERVER.can_fork(words, told):
        forked = FORK_SERVER.fork(words, told, folder, log.fileno())
        open_gate(forked)
        return forked
    return subprocess.Popen(
        words,
        cwd=folder,
        env=told,
        stdin=reads,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def _apart(path: str, flags: int) -> int:
    """Open a terminal that does not become ours."""
    return os.open(path, flags | os.O_NOCTTY)


def piped_to(path: Path, is_read: Event) -> IO[bytes]:
    """The writing end of a pipe; a thread copies what comes through it to a file, while it may."""

    def copy() -> None:
        with path.open("wb") as log:
            # Slower than the writers, so that the pipe is full.
            while is_read.wait() and (data := os.read(reading, 4096)):
                log.write(data)
                log.flush()
                time.sleep(0.0005)
        os.close(reading)

    reading, writing = os.pipe()
    path.touch()
    Thread(target=copy, daemon=True).start()
    return open(writing, "wb")


def living() -> Iterator[int]:
    """All processes of this machine that have not ended."""
    return filter(is_alive, all_processes())


def environment_of(pid: int) -> list[bytes]:
    """The environment a process started with."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []
