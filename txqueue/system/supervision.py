"""Starts processes that do not outlive this one, even if it is killed.

A watcher is a process that ends another one as soon as this one dies. A program starts only once
its watcher runs: until then the process waits at a gate, for a line on its standard input.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, Protocol

__all__ = ["Gated", "open_gate", "start_gated", "start_watcher"]

# If the starting process dies before it writes the line, the program never starts.
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
