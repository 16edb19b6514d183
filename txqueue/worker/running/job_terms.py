"""The terms of a job: its time limit, its attempts, and until when it may start."""

from __future__ import annotations

import time
from typing import Any

from txqueue.errors import InvalidWork
from txqueue.model.job_policy import is_timeout
from txqueue.model.retry import MOST_ATTEMPTS

__all__ = ["check_terms", "is_expired", "is_grouped"]


def check_terms(terms: Any) -> None:
    """Check the options in a job's terms as `WorkQueue.enqueue` does, as SQL accepts any JSON.

    Raises:
        InvalidWork: When an option is not valid.
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
    """Tell whether a job has expired and must not start; one with steps has started before.

    Args:
        terms: The job's terms; ``left`` has the seconds until its not_after.
        expires: Whether its work type declares ``expires``; the options may override it.
        asked_at: When the claim was sent, by the monotonic clock; ``left`` counts from then or
            later.
    """
    if "left" not in terms or "steps" in terms or not terms.get("expires", expires):
        return False
    return bool(time.monotonic() >= asked_at + float(terms["left"]))


def is_grouped(terms: dict[str, Any]) -> bool:
    """Tell whether a job counts towards a limit of a group, a queue or a tenant."""
    return "grouped" in terms
