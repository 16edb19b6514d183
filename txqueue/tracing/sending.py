"""A call that enqueues, as a trace sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from attrs import frozen

from txqueue.model.work_item import WorkItem

__all__ = ["Sending", "Untraced"]


class Sending(Protocol):
    """A call that enqueues, while it runs."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options for its jobs."""

    def watch(self, works: Iterator[WorkItem]) -> Iterator[WorkItem]:
        """Note the work types of work items as they pass."""

    def enqueued(self, *job_ids: int) -> None:
        """Note the jobs that were enqueued."""


@frozen
class Untraced:
    """A call that enqueues without a trace."""

    options: Mapping[str, Any]

    def watch(self, works: Iterator[WorkItem]) -> Iterator[WorkItem]:
        """Note nothing."""
        return works

    def enqueued(self, *job_ids: int) -> None:
        """Note nothing."""
