"""Makes the first master that imports it kill itself at one exact moment, once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from txqueue.model.assignment import Assignment, read_chunk
from txqueue.node.credits import Credits
from txqueue.node.workers import Workers
from txqueue.torture.recorder import FOLDER_VARIABLE
from txqueue.torture.work import diary
from txqueue.wire.client_commands import Deliver

__all__ = ["AFTER_CLAIM", "BEFORE_DELIVERY", "VARIABLE", "WHAT"]

VARIABLE: Final = "TXQUEUE_TORTURE_MOMENT"
AFTER_CLAIM: Final = "after claim"
BEFORE_DELIVERY: Final = "before delivery"
WHAT: Final = "sabotage"
"""The name of the record of the kill."""

# How many jobs are handled before the kill.
SPARED: Final = 20


def _die(moment: str, job_ids: list[int]) -> None:
    """Kill this process before it handles some jobs, unless another master did so before."""
    path = Path(os.environ[FOLDER_VARIABLE]) / "sabotaged"
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return
    diary().write(WHAT, moment=moment, job_ids=job_ids, pid=os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


def _ids_of(chunks: Iterable[str]) -> list[int]:
    """Return the numbers of the jobs of some chunks; an empty one names none."""
    return [job.job_id for chunk in chunks if chunk for job in read_chunk(chunk)]


def _dying_workers(perform: Callable[..., None]) -> Callable[..., None]:
    """Make workers whose master dies just after a claim."""
    seen = 0

    def dying(self: Workers, assignments: Sequence[Assignment]) -> None:
        nonlocal seen
        seen += len(assignments)
        if assignments and seen > SPARED:
            _die(AFTER_CLAIM, _ids_of(each.chunk for each in assignments))
        perform(self, assignments)

    return dying


def _dying_credits(greet: Callable[..., Any]) -> Callable[..., Any]:
    """Make an end of direct dispatch that dies when a message of committed jobs arrives."""
    seen = 0

    def dying(self: Credits, pipe: Any) -> Any:
        responders, left = greet(self, pipe)

        def deliver(heads: str, chunks: str) -> Any:
            nonlocal seen
            seen += len(json.loads(heads))
            if seen > SPARED:
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
