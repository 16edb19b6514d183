"""Processes of this host and this process's own attributes, children, memory and processors; by
Linux's ``/proc`` and ``prctl`` where the system has them.

A watcher is a process that ends another one as soon as this one dies. A program starts only once
its watcher runs: until then the process waits at a gate, for a line on its standard input.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final, Protocol, Self, TypeAlias

from attrs import frozen

from txqueue.system.clock import Clock

STATE: Final = 0
"""The index of a process's state in the result of `stat_of`."""
PARENT: Final = 1
"""The index of the id of a process's parent in the result of `stat_of`."""
WORKER_NAME: Final = "txqueue-worker"
"""The name of worker processes, as in ``/proc/PID/comm``: a forked one has the command line of its
template.
"""


def stat_of(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the program's name, which may contain blanks.

    Raises:
        OSError: When there is no such process, or this process may not see it.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 where the system does not report it."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is not a zombie."""
    with suppress(OSError):
        return stat_of(pid)[STATE] != "Z"
    return False


def all_processes() -> Iterator[int]:
    """Yield the ids of all processes."""
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def children_of(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    pids: list[int] = []
    # The process may end during the scan, or one of its threads.
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                pids += map(int, path.read_text().split())
    return pids


def descendants_of(pid: int) -> list[int]:
    """Return the ids of a process's children, their children and so on."""
    children = children_of(pid)
    return children + [descendant for child in children for descendant in descendants_of(child)]


def command_of(pid: int) -> str:
    """Return a process's command line; an empty text if the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return ""


def parent_of(pid: int) -> int:
    """Return the id of a process's parent; 0 if the process is gone."""
    with suppress(OSError):
        return int(stat_of(pid)[PARENT])
    return 0


def workers_of(master: int) -> list[int]:
    """Return the ids of a master's living workers, its children or those of its template."""
    children = children_of(master)
    candidates = [
        *children,
        *(grandchild for child in children for grandchild in children_of(child)),
    ]
    return [pid for pid in candidates if _name_of(pid) == WORKER_NAME and is_alive(pid)]


def _name_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    return ""


def thread_count() -> int:
    """Return the number of threads of this process, those of libraries too."""
    return sum(1 for _ in Path("/proc/self/task").glob("*"))


NO_HOST = ""
"""The `host_identity` of a node whose process other nodes cannot check."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = "/proc/self/ns/pid"


def host_identity() -> str:
    """Return a text that identifies this boot and process id namespace; `NO_HOST` if unknown."""
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink(_NAMESPACE)}"
    except OSError:
        return NO_HOST


def has_ended(pid: int) -> bool:
    """Tell whether a process of this host has ended: it does not exist, or is a zombie."""
    try:
        # Signal 0 instead of /proc, which may hide processes of other accounts.
        os.kill(pid, 0)
        return stat_of(pid)[STATE] in ("Z", "X")
    except ProcessLookupError:
        return True
    except OSError:
        return False


_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_TIMERSLACK: Final = 29


def die_with_parent(parent: int | None = None) -> None:
    """Make Linux kill this process when its parent dies, even if it is stopped or stuck in C code.

    Args:
        parent: The process id of the parent: if it has already died, this process exits. None if
            this process notices that in another way.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def set_process_name(name: str) -> None:
    """Set the name of this process as ``ps -o comm`` and ``pgrep -x`` show it.

    Args:
        name: The name; the system keeps the first 15 characters.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())


def wake_on_time() -> None:
    """Have this thread wake within 1 µs: Linux may add 50 to each wait, to save power."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1000))


# If the starting process dies before it writes the line, the program never starts.
Process: TypeAlias = subprocess.Popen[bytes]
_GATE = 'read -r _ && exec "$@"'


class Gated(Protocol):
    """A process that waits at its gate."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its standard input."""


def start_gated(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that becomes a given program once its gate is opened.

    Before that, the process ends when its standard input closes: at the latest when this process
    dies.

    Args:
        command: The program and its arguments.
        options: Further arguments of `subprocess.Popen`; standard input is taken.

    Returns:
        The process, whose process id stays the same when it becomes the program.
    """
    whole_command = ["/bin/sh", "-c", _GATE, "txqueue-gate", *command]
    return subprocess.Popen(whole_command, stdin=subprocess.PIPE, **options)


def open_gate(process: Gated, *, talks: bool = False) -> None:
    """Let a gated process become its program.

    Args:
        process: The result of `start_gated`, or another process with such a gate.
        talks: Whether the program's standard input stays open; otherwise it is closed.
    """
    assert process.stdin is not None
    # If the process has already ended, the caller that waits for it notices.
    with suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), b"\n")
    if not talks:
        process.stdin.close()


def start_watcher(script: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a shell that ends processes when its standard input closes.

    Its standard input closes at the latest when this process dies. The shell has a session of its
    own, so that signals to this process do not reach it.

    Args:
        script: The shell script; it must read its standard input first.
        arguments: The arguments of the script.
        options: Further arguments of `subprocess.Popen`.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "txqueue-watcher", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **{"start_new_session": True, **options},
    )


# Stops a process and its group.
_WATCH: Final = 'read -r _; kill -TERM "$1"; sleep 15; kill -KILL -"$1"'


@frozen
class WatchedProcess:
    """A process, and a watcher that stops it at the latest when this process dies.

    Attributes:
        process: The process.
    """

    process: Process
    _watcher: Process

    @classmethod
    def start(cls, command: Sequence[str], **options: Any) -> Self:
        """Start both. Ctrl-C reaches only this process, which stops the other one.

        Args:
            command: The program and its arguments.
            options: Further arguments of `subprocess.Popen`; standard input is taken.
        """
        process = start_gated(command, start_new_session=True, **options)
        watcher = start_watcher(_WATCH, str(process.pid))
        open_gate(process)
        return cls(process, watcher)

    def stop(self, *limits: float) -> int:
        """Terminate the process, again after each limit; then kill what is left of its group.

        Args:
            limits: The seconds to wait after each signal.

        Returns:
            The status with which it has ended.
        """
        # First the watcher, as it must not signal a reused process id.
        self._watcher.kill()
        self._watcher.communicate()
        try:
            for limit in limits:
                self.process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(limit)
                    break
        finally:
            # Workers of a dead master, or one that does not stop.
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


# Seconds between two polls; each asks the kernel once about every child.
EVERY: Final = 1.0
_NEEDED: Final = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM}


def unblock_signals() -> None:
    """Unblock the signals that end a process or report a child's end.

    Programs inherit what their starter has blocked, and an import may block signals as well.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NEEDED)


def receive_child_signal(notify: Callable[[], object]) -> None:
    """Call a function after each SIGCHLD, whatever was set up for it before.

    Args:
        notify: The function; it interrupts other code and must only schedule a call.
    """

    def received(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's
        notify()

    signal.signal(signal.SIGCHLD, received)
    signal.siginterrupt(signal.SIGCHLD, False)
    unblock_signals()


def poll_children(clock: Clock, reap: Callable[[], object]) -> None:
    """Wait for ended children once a second, as long as the reactor runs.

    A library that an application imports may block SIGCHLD, or replace its handler, at any time.

    Args:
        clock: Times the polls.
        reap: Waits for the children that have ended.
    """
    # First, so that an error in what follows a child's end does not end the polls.
    clock.callLater(EVERY, poll_children, clock, reap)
    reap()


_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


def freeze_loaded_objects() -> None:
    """Exempt all objects loaded so far from garbage collection, as they live until the process
    ends.

    Later collections are short. Instagram does the same: "Copy-on-write friendly Python
    garbage collection", 2017.
    """
    gc.collect()
    gc.freeze()
    # Python runs a full collection once there are a quarter more objects than at the last one, so
    # collect once more, now that the frozen objects do not count.
    gc.collect()


def collect_often() -> None:
    """Collect all generations after 5,000 new objects instead of 80,000.

    Only for processes in which few, small objects outlive a turn of the reactor; without this,
    garbage in reference cycles stays there for hours. The process of an application may have large
    objects, for which frequent collections take long.
    """
    gc.set_threshold(700, 1, 1)


def return_free_memory() -> None:
    """Return free memory inside the C library's heap to the system.

    By itself the library returns only the heap's end, but long-lived small objects lie between the
    texts of claims, which come and go. Without glibc, do nothing.
    """
    if _TRIM is not None:
        _TRIM(0)


# The files of a quota and its period, of cgroups v2 and v1.
_QUOTAS: Final = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))


def usable_cpus(root: Path = Path("/")) -> int:
    """Return how many processors the affinity and the quotas of the cgroups allow, at least one.

    Args:
        root: The folder that has ``proc`` and ``sys``.
    """
    return max(1, min([_allowed(), *map(ceil, _quotas(root))]))


def _allowed() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        # This system has no affinity.
        return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    for folder in _folders(root):
        for names in _QUOTAS:
            # Without a quota, its file has the word max or a number below 0, or is not there.
            with suppress(OSError, ValueError):
                quota, period = " ".join((folder / name).read_text() for name in names).split()
                if int(quota) > 0:
                    yield int(quota) / int(period)


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's cgroups and their ancestors, whose quotas hold too.

    In a container, the paths may be those of the host; the mount then has the container's files.
    """
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        folder = mount / path.lstrip("/")
        if not controllers or "cpu" in controllers.split(","):
            yield from (each for each in (folder, *folder.parents) if each.is_relative_to(mount))
