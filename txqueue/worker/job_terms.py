"""What is told of a job besides its payload: how long it may take, and until when it may start."""

from __future__ import annotations

import time
from typing import Any

from txqueue.errors import InvalidWork
from txqueue.model.retry import MOST_ATTEMPTS
from txqueue.model.work_item import is_timeout

__all__ = ["check_terms", "is_expired", "is_grouped"]


def check_terms(terms: Any) -> None:
    """Hold options against what `WorkQueue.enqueue` takes: SQL takes any JSON.

    Raises:
        InvalidWork: When they are something else.
    """
    if isinstance(terms, dict):
        timeout, attempts = terms.get("timeout"), terms.get("attempts", 1)
        is_time = timeout is None or is_timeout(timeout)
        if is_time and type(attempts) is int and 0 < attempts <= MOST_ATTEMPTS:
            return
    raise InvalidWork(
        "the options are not an object with a timeout above 0, at most ten years, and attempts of"
        f" 1 to {MOST_ATTEMPTS}",
        "enqueue with options such as {'timeout': 30, 'attempts': 3}",
    )


def is_expired(terms: dict[str, Any], expires: bool, asked_at: float) -> bool:
    """Tell whether a job must not start any more.

    Args:
        terms: What is told of it; ``left`` are the seconds until its not_after.
        expires: Whether its type says that not_after ends it; the terms may say otherwise.
        asked_at: When it was asked for, by the monotonic clock: not later than ``left`` was true.
    """
    if "left" not in terms or not terms.get("expires", expires):
        return False
    return bool(time.monotonic() >= asked_at + float(terms["left"]))


def is_grouped(terms: dict[str, Any]) -> bool:
    """Tell whether a job counts for a limit: of a group, a queue or a tenant."""
    return "grouped" in terms
