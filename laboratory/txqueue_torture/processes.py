"""Starts the processes of a scenario without a terminal, and kills all of them at its end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeAlias
from weakref import WeakSet

from txqueue.system.processes import open_gate, start_gated, start_watcher
from txqueue_torture.fork_server import FORK_SERVER, ForkedProcess

__all__ = ["Leash", "Started"]

# A watcher's program: it reads process groups from its standard input, and kills them when that
# closes without an order to stop: at the latest when this process dies.
_WATCH = """
groups=
while read -r word group; do
    case $word in
        add) groups="$groups $group" ;;
        drop) groups=$(for each in $groups; do [ "$each" = "$group" ] || echo "$each"; done) ;;
        over) exit 0 ;;
    esac
done
for group in $groups; do kill -KILL -"$group"; done
"""


Started: TypeAlias = subprocess.Popen[bytes] | ForkedProcess
"""A process that a scenario has started."""

_leashes: WeakSet[Leash] = WeakSet()


class Leash:
    """Starts processes, each in a separate group, and kills the remaining ones at the end."""

    def __init__(self) -> None:
        _leashes.add(self)
        self._groups: dict[int, Started] = {}
        self._watcher = start_watcher(_WATCH)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        *,
        talks: bool = False,
    ) -> Started:
        """Start a process.

        Args:
            command: The command to run.
            environment: The whole environment.
            folder: The working folder.
            log: The file for its output.
            talks: Whether the process's standard input is a pipe from this process.
        """
        with log.open("ab") as out:
            process = _gated(command, environment, folder, out)
        self._groups[process.pid] = process
        self._tell(f"add {process.pid}")
        open_gate(process, talks=talks)
        return process

    def kill(self, process: Started) -> None:
        """Kill a process and its whole group."""
        if self._groups.pop(process.pid, None) is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._tell(f"drop {process.pid}")

    def close(self) -> None:
        """Kill all remaining processes; no other process can be started afterwards."""
        for process in list(self._groups.values()):
            self.kill(process)
        self._tell("over")
        self._watcher.communicate()

    @staticmethod
    def close_all() -> None:
        """Kill all remaining processes of every scenario that this process runs."""
        for leash in list(_leashes):
            leash.close()

    def _tell(self, words: str) -> None:
        assert self._watcher.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self._watcher.stdin.write(f"{words}\n".encode())
            self._watcher.stdin.flush()


def _gated(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, out: IO[bytes]
) -> Started:
    """Start a process that waits at its gate."""
    if FORK_SERVER.can_fork(command, environment):
        return FORK_SERVER.fork(command, environment, folder, out.fileno())
    return start_gated(
        command,
        env=dict(environment),
        cwd=folder,
        stdout=out,
        stderr=out,
        start_new_session=True,
    )
