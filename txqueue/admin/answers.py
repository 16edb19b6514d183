"""What a node answers to an operator's program, where a plain value does not do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import frozen

from txqueue.model.operator_acts import Cancelled

__all__ = ["Cancelled", "JobsPage", "Restarted"]


@frozen
class JobsPage:
    """One page of a list of jobs.

    Attributes:
        jobs: The jobs of the page.
        next: The `after` with which to request the next page; None on the last page.
        at: The time by the database's clock.
        searched: How many jobs were looked at, if the page ends because of that; None otherwise.
    """

    jobs: list[dict[str, Any]]
    next: str | None
    at: datetime
    searched: int | None = None


@frozen
class Restarted:
    """The result of a request to restart jobs.

    Attributes:
        restarted: The numbers of the jobs that are in the queue again.
        requested: The numbers of jobs of groups, which follow once their node has ended their runs.
        refused: The numbers of jobs that did not run, or do not exist.
    """

    restarted: list[int]
    requested: list[int]
    refused: list[int]
