"""Runs assignments that notifications or reads have brought, or returns them to the queue."""

from __future__ import annotations

from collections.abc import Sequence

from txqueue.model.assignment import Assignment
from txqueue.node.state.collaborators import Executor, GivenBack
from txqueue.node.state.deduplication import Deduplicator
from txqueue.node.state.lifecycle import Lifecycle

__all__ = ["Intake"]


class Intake:
    """Takes each assignment once, though notifications, messages and polls may all name it.

    Jobs that a client's message brings do not pass here.

    Args:
        workers: Run the jobs.
        deduplicator: Filters assignments that arrived before.
        lifecycle: A draining node returns what arrives.
        records: Returns jobs to the queue.
    """

    def __init__(
        self,
        workers: Executor,
        deduplicator: Deduplicator,
        lifecycle: Lifecycle,
        records: GivenBack,
    ) -> None:
        self._workers = workers
        self._deduplicator = deduplicator
        self._lifecycle = lifecycle
        self._records = records

    def take(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Run assignments, or return them to the queue if the node drains.

        Returns:
            Those that had not arrived before.
        """
        accepted = [
            assignment for assignment in assignments if self._deduplicator.accept(assignment.number)
        ]
        if accepted:
            # A job may be named again when the deduplicator has long forgotten it.
            held = frozenset(self._workers.assignments)
            accepted = [assignment for assignment in accepted if assignment.number not in held]
        if not self._lifecycle.is_draining:
            self._workers.perform(accepted)
            return accepted
        for assignment in accepted:
            self._records.give_back(assignment.number, died=False)
        return accepted
