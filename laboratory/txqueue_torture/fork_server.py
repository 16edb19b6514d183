"""Runs Python programs as forks of a process that has imported what all of them import.

Nodes and clients import most of txqueue and Twisted, which takes each of them longer than a short
scenario's work. A fork has the arguments, environment, folder and descriptors that the program
would have, a session of its own, and the same gate as `txqueue.system.processes` has.

``python -m txqueue_torture.fork_server DESCRIPTOR MODULE...`` is the server's side.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final

__all__ = ["FORK_SERVER", "ForkServer", "ForkedProcess"]

PRELOADED: Final = (
    *("txqueue.tap", "txqueue.client.queue", "txqueue_torture.database_clock"),
    *("txqueue_torture.history", "txqueue_torture.recorder", "twisted.scripts.twistd"),
    *("twisted.internet.posixbase", "twisted.internet.task", "twisted.internet.unix"),
    "unittest",  # Twisted's plugins import it.
)
"""What nodes and clients import; nothing of it installs a reactor or reads the environment."""
# These decide what an interpreter loads as it starts.
_OF_INTERPRETER: Final = ("PYTHON", "LD_")
_MOST_BYTES: Final = 1 << 17


class ForkedProcess:
    """A program that runs as a fork; as `subprocess.Popen`, as far as scenarios need it.

    Args:
        status: The descriptor from which its process id is read, and at its end its status.
        stdin: Its standard input.
    """

    def __init__(self, status: int, stdin: IO[bytes]) -> None:
        self._status = os.fdopen(status, "rb", buffering=0)
        self.stdin: IO[bytes] | None = stdin
        self.returncode: int | None = None
        self.pid = self._read()

    def poll(self) -> int | None:
        """Return its status if it has ended."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its status.

        Raises:
            subprocess.TimeoutExpired: When it has not ended in time.
        """
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return status

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send it SIGTERM, unless it has ended."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._can_read(timeout):
            self.returncode = self._read()
            self._status.close()
        return self.returncode

    def _can_read(self, timeout: float | None) -> bool:
        return bool(_ready([self._status.fileno()], timeout))

    def _read(self) -> int:
        line = self._status.readline()
        if not line:
            raise ChildProcessError("the server that forks nodes and clients has ended")
        return int(line)


class ForkServer:
    """The process that forks; it starts with the first fork, and ends with this process.

    Args:
        environment: Its environment; that of this process by default.
        preloaded: The modules to import before the first fork.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        preloaded: Sequence[str] = PRELOADED,
    ) -> None:
        self._environment = environment
        self._preloaded = preloaded
        self._starting = Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def can_fork(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Tell whether a fork is the same as a new process: it is a Python like the server."""
        ours = self._environment
        names = {name for name in (*environment, *ours) if name.startswith(_OF_INTERPRETER)}
        is_alike = all(environment.get(name) == ours.get(name) for name in names)
        return is_alike and command[0] == sys.executable

    def fork(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: int
    ) -> ForkedProcess:
        """Fork a process, which waits at its gate: `open_gate` lets it become the program.

        Args:
            command: A command line of this Python that names a script, or a module after ``-m``.
            environment: The whole environment.
            folder: The working folder.
            log: The descriptor for its output.
        """
        request = {"command": command[1:], "environment": dict(environment), "folder": str(folder)}
        control = self.start()
        status, their_status = os.pipe()
        their_stdin, stdin = os.pipe()
        try:
            given = [their_stdin, log, their_status]
            socket.send_fds(control, [json.dumps(request).encode()], given)
        finally:
            os.close(their_status)
            os.close(their_stdin)
        return ForkedProcess(status, os.fdopen(stdin, "wb", buffering=0))

    def close(self) -> None:
        """End the process that forks; what it has forked goes on."""
        with self._starting:
            if self._control is not None and self._process is not None:
                self._control.close()
                self._process.wait()
            self._control = self._process = None

    def start(self) -> socket.socket:
        """Start the process that forks unless it runs; return the socket for requests."""
        with self._starting:
            if self._control is None:
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", __name__, str(theirs.fileno()), *self._preloaded],
                        env=dict(self._environment),
                        pass_fds=[theirs.fileno()],
                        stdin=subprocess.DEVNULL,
                        start_new_session=True,
                    )
            return self._control


FORK_SERVER: Final = ForkServer()
"""The one of this process, for all its scenarios."""


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork a process for each request, and write down the status of each that ends.

    Returns:
        The request and descriptors, in the process that is to run it; None once no more come.
    """
    statuses: dict[int, int] = {}
    ends, noted = os.pipe()
    os.set_blocking(ends, False)
    os.set_blocking(noted, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    while True:
        ready = _ready([control.fileno(), ends])
        if ends in ready:
            os.read(ends, 4096)
            _note_ends(statuses)
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES, 3)
        if not message:
            return None
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (ends, noted, *statuses.values()):
                os.close(descriptor)
            control.close()
            return json.loads(message), descriptors
        stdin, log, statuses[pid] = descriptors
        os.close(stdin)
        os.close(log)
        _write(statuses[pid], pid)


def _ready(descriptors: Sequence[int], timeout: float | None = None) -> set[int]:
    """Wait until some descriptors can be read; `select()` would take none from 1024 on."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {ready for ready, _ in poll.poll(None if timeout is None else timeout * 1000)}


def _note_ends(statuses: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            descriptor = statuses.pop(pid)
            _write(descriptor, os.waitstatus_to_exitcode(status))
            os.close(descriptor)


def _write(descriptor: int, number: int) -> None:
    # The process that asked may have ended.
    with suppress(BrokenPipeError):
        os.write(descriptor, f"{number}\n".encode())


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Wait at the gate, and run the program."""
    stdin, log, status = descriptors
    os.setsid()
    for source, target in ((stdin, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    for descriptor in (stdin, log, status):
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if os.read(0, 1) != b"\n":
        os._exit(1)
    _run(request["command"])


def _run(command: list[str]) -> None:
    """Run a program as the interpreter does."""
    sys.path[0] = os.getcwd()
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")


def main() -> None:
    """Serve until the other side has closed its descriptor."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()
    asked = _serve(control)
    if asked is not None:
        _become(*asked)


if __name__ == "__main__":
    main()
