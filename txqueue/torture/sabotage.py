"""Has the first master that imports it kill itself at one exact moment, once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

from txqueue.node.arrivals import Arrivals
from txqueue.node.workers import WorkerPool
from txqueue.torture.recorder import FOLDER_VARIABLE
from txqueue.torture.work import diary

__all__ = ["AFTER_CLAIM", "BEFORE_DELIVERY", "VARIABLE"]

VARIABLE: Final = "TXQUEUE_TORTURE_MOMENT"
AFTER_CLAIM: Final = "after claim"
BEFORE_DELIVERY: Final = "before delivery"

# Jobs that go well before it happens.
SPARED: Final = 20


def _die(moment: str) -> None:
    """Kill this process, unless a master has died so before."""
    path = Path(os.environ[FOLDER_VARIABLE]) / "sabotaged"
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return
    diary().write("sabotage", moment=moment, pid=os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


def _before(function: Callable[..., Any], moment: str) -> Callable[..., Any]:
    """Wrap what handles jobs: it dies instead of handling the first ones after the spared."""
    seen = 0

    @wraps(function)
    def dying(self: Any, given: Any) -> Any:
        nonlocal seen
        jobs = sum(chunk.jobs for chunk in given) if isinstance(given, list) else 1
        seen += jobs
        if jobs and seen > SPARED:
            _die(moment)
        return function(self, given)

    return dying


def _arm(moment: str) -> None:
    if moment == AFTER_CLAIM:
        WorkerPool.perform = _before(WorkerPool.perform, moment)  # type: ignore[method-assign]
    elif moment == BEFORE_DELIVERY:
        Arrivals.accept = _before(Arrivals.accept, moment)  # type: ignore[method-assign]


_arm(os.environ.get(VARIABLE, ""))
