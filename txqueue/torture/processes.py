"""The processes of a run: started apart from our terminal, and gone at its end in any case."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

__all__ = ["Leash", "children_of", "command_of", "descendants_of", "is_alive"]

# Kills the process groups that it was told of when its standard input closes without a last word,
# which happens at the latest when our process dies.
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


_leashes: WeakSet[Leash] = WeakSet()


class Leash:
    """Starts processes, each in a group of its own, and kills what is left of them at the end."""

    def __init__(self) -> None:
        _leashes.add(self)
        self._groups: dict[int, subprocess.Popen[bytes]] = {}
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "txqueue-watcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        *,
        talks: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a process.

        Args:
            command: What to run.
            environment: All of its environment.
            folder: Where.
            log: The file of what it prints.
            talks: Whether its standard input is a pipe of ours.
        """
        with log.open("ab") as out:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._groups[process.pid] = process
        self._tell(f"add {process.pid}")
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and its whole group, and forget it."""
        if self._groups.pop(process.pid, None) is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._tell(f"drop {process.pid}")

    def close(self) -> None:
        """Kill all that is left; afterwards nothing can be started."""
        for process in list(self._groups.values()):
            self.kill(process)
        self._tell("over")
        self._watcher.communicate()

    @staticmethod
    def close_all() -> None:
        """Kill all that is left of every run of this process."""
        for leash in list(_leashes):
            leash.close()

    def _tell(self, words: str) -> None:
        assert self._watcher.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self._watcher.stdin.write(f"{words}\n".encode())
            self._watcher.stdin.flush()


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process, from Linux's own lists."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def descendants_of(pid: int) -> list[int]:
    """Return its children, their children and so on."""
    children = children_of(pid)
    return children + [each for child in children for each in descendants_of(child)]


def command_of(pid: int) -> str:
    """Return a process's command line, an empty text if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return ""


def is_alive(pid: int) -> bool:
    """Tell whether there is such a process and it does more than wait for its parent."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
