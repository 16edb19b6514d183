"""Makes one master kill itself just after a claim, or when a client's jobs are delivered to it.

A node imports this module with ``--app``; a variable says when. Only the first master dies.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from txqueue.model.assignment import Assignment, read_chunk
from txqueue.node.arrival.assigned import Credits
from txqueue.node.workers.workload import Workers
from txqueue.wire.commands import Deliver
from txqueue_torture.recorder import FOLDER_VARIABLE
from txqueue_torture.work import diary

__all__ = ["AFTER_CLAIM", "BEFORE_DELIVERY", "VARIABLE", "WHAT"]

VARIABLE: Final = "TXQUEUE_TORTURE_MOMENT"
AFTER_CLAIM: Final = "after claim"
BEFORE_DELIVERY: Final = "before delivery"
WHAT: Final = "sabotage"
"""The name of the record of the kill."""

# How many jobs, or assignments of a claim, the master handles before it kills itself.
SPARED: Final = 20


def _die(moment: str, job_ids: list[int]) -> None:
    """Record the jobs that come next and kill this process, unless another master has done so."""
    path = Path(os.environ[FOLDER_VARIABLE]) / "sabotaged"
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return
    diary().write(WHAT, moment=moment, job_ids=job_ids, pid=os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


def _ids_of(chunks: Iterable[str]) -> list[int]:
    """Return the numbers of the jobs in the given chunks; a chunk may be empty."""
    return [job.job_id for chunk in chunks if chunk for job in read_chunk(chunk)]


def _dying_workers(perform: Callable[..., None]) -> Callable[..., None]:
    """Wrap `Workers.perform` so that the master dies before it sends claimed jobs to a worker."""
    count = 0

    def dying(self: Workers, assignments: Sequence[Assignment]) -> None:
        nonlocal count
        count += len(assignments)
        if assignments and count > SPARED:
            _die(AFTER_CLAIM, _ids_of(assignment.chunk for assignment in assignments))
        perform(self, assignments)

    return dying


def _dying_credits(greet: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `Credits.greet` so that the master dies when a client delivers committed jobs."""
    count = 0

    def dying(self: Credits, pipe: Any) -> Any:
        responders, left = greet(self, pipe)

        def deliver(heads: str, chunks: str) -> Any:
            nonlocal count
            count += len(json.loads(heads))
            if count > SPARED:
                _die(BEFORE_DELIVERY, _ids_of(chunks.split("\n")))
            return responders[Deliver](heads, chunks)

        return {**responders, Deliver: deliver}, left

    return dying


def _arm(moment: str) -> None:
    if moment == AFTER_CLAIM:
        Workers.perform = _dying_workers(Workers.perform)  # type: ignore[method-assign]
    elif moment == BEFORE_DELIVERY:
        Credits.greet = _dying_credits(Credits.greet)  # type: ignore[method-assign]


_arm(os.environ.get(VARIABLE, ""))
