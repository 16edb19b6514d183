"""Records events: one file for each process, every line written at once.

A killed process loses no line. No fault stops the machine: lines need not wait for the disk.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from threading import Lock
from typing import Any

from txqueue_torture.database_clock import DatabaseClock
from txqueue_torture.history import SUFFIX

__all__ = ["DSN_VARIABLE", "FOLDER_VARIABLE", "NODE_VARIABLE", "Recorder", "recorder"]

FOLDER_VARIABLE = "TXQUEUE_TORTURE_FOLDER"
DSN_VARIABLE = "TXQUEUE_TORTURE_DSN"
NODE_VARIABLE = "TXQUEUE_TORTURE_NODE"


class Recorder:
    """Writes the records of one process.

    Args:
        folder: The folder of the records.
        name: The file's name, to which the process id is added.
        dsn: The database whose clock is read, without a proxy; empty if it has this host's clock.
        node: The node that this process belongs to.
    """

    def __init__(self, folder: Path, name: str, dsn: str, node: str = "") -> None:
        self.node = node
        self._path = folder / f"{name}-{os.getpid()}{SUFFIX}"
        self._clock = DatabaseClock(dsn) if dsn else None
        self._turn = Lock()
        self._file = -1

    def at(self) -> float | None:
        """Return the seconds since 1970 by the database's clock; None without an answer."""
        if self._clock is None:
            return time.time()
        with self._turn:
            return self._clock.now()

    def write(self, what: str, **values: Any) -> None:
        """Write a record; its ``mono`` is the host's monotonic time unless given."""
        line = {"what": what, "mono": time.monotonic(), **values}
        text = json.dumps(line, separators=(",", ":")) + "\n"
        with self._turn:
            if self._file < 0:
                mode = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._file = os.open(self._path, mode, 0o600)
            os.write(self._file, text.encode())

    def note(self, what: str, job: Any, intent: str, **values: Any) -> None:
        """Record an event of a job that runs in this process."""
        whose = {"intent": intent, "job_id": job.id, "attempt": job.attempt}
        token = {"incarnation": job.token.incarnation, "assignment": job.token.assignment}
        where = {"node": self.node, "pid": os.getpid()}
        # Take the time first, as reading the database's clock may take a while.
        mono = time.monotonic()
        self.write(what, **whose, **token, **where, mono=mono, at=self.at(), **values)

    def close(self) -> None:
        """Close the file and the connection."""
        with self._turn:
            if self._clock is not None:
                self._clock.close()
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


def recorder(name: str = "handler") -> Recorder:
    """Return this process's recorder, configured by the environment."""
    folder, dsn = Path(os.environ[FOLDER_VARIABLE]), os.environ[DSN_VARIABLE]
    return Recorder(folder, name, dsn, os.environ.get(NODE_VARIABLE, ""))
