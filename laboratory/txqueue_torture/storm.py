"""Work that fails quickly, for scenarios in which very many jobs fail at the same time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from attrs import define

from txqueue.model.work_item import WorkItem
from txqueue_torture.history import SUFFIX
from txqueue_torture.recorder import FOLDER_VARIABLE, NODE_VARIABLE

__all__ = ["FailsAtOnce"]

_file = -1


@define
class FailsAtOnce(WorkItem):
    """Work that fails a number of times before it succeeds, with the default retry policy."""

    intent: str
    times: int

    work_type = "txqueue_torture.fails_at_once"

    async def perform(self, job: Any) -> None:
        """Fail in the first attempts, succeed in a later one."""
        if job.attempt <= self.times:
            _note(job, self.intent, "raised")
            raise ValueError("everything that it needs is away")
        _note(job, self.intent, "returned")


def _note(job: Any, intent: str, how: str) -> None:
    """Record start and end of a run with one write, without waiting for the disk."""
    global _file  # noqa: PLW0603 - opened at the first note, in the process that notes
    if _file < 0:
        path = Path(os.environ[FOLDER_VARIABLE]) / f"storm-{os.getpid()}{SUFFIX}"
        _file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    token = {"incarnation": job.token.incarnation, "assignment": job.token.assignment}
    where = {"node": os.environ[NODE_VARIABLE], "pid": os.getpid(), "mono": time.monotonic()}
    line = {"intent": intent, "job_id": job.id, "attempt": job.attempt, **token, **where}
    lines = ({"what": "start", **line}, {"what": "end", **line, "how": how})
    os.write(_file, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
