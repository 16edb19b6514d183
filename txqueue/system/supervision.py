"""Processes that do not outlive ours, whatever ends it: each begins when its watcher is there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

__all__ = ["open_gate", "start_gated", "start_watcher"]

# No line comes when the process that would have written it has died: the program never begins.
_GATE = 'read -r _ && exec "$@"'


def start_gated(command: Sequence[str], **manners: Any) -> subprocess.Popen[bytes]:
    """Start a process that becomes the program when its gate is opened.

    Until then it ends as soon as its standard input closes, which happens at the latest when
    our process dies, whatever kills it.

    Args:
        command: The program and its arguments.
        manners: What else `subprocess.Popen` takes; standard input is ours.

    Returns:
        The process; its number is the program's.
    """
    gated = ["/bin/sh", "-c", _GATE, "txqueue-gate", *command]
    return subprocess.Popen(gated, stdin=subprocess.PIPE, **manners)


def open_gate(process: subprocess.Popen[bytes], *, talks: bool = False) -> None:
    """Let the program begin.

    Args:
        process: What `start_gated` returned.
        talks: Whether its standard input stays open for more; otherwise there is nothing to read.
    """
    assert process.stdin is not None
    # One that has ended already is for its owner to notice.
    with suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), b"\n")
    if not talks:
        process.stdin.close()


def start_watcher(script: str, *words: str, **manners: Any) -> subprocess.Popen[bytes]:
    """Start a shell that is to end processes when its standard input closes.

    That happens at the latest when our process dies. Nothing signals it with us: it has a
    session of its own.

    Args:
        script: What it does; it reads its standard input first.
        words: The script's arguments.
        manners: What else `subprocess.Popen` takes.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "txqueue-watcher", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **{"start_new_session": True, **manners},
    )
