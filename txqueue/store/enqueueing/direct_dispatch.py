"""Direct dispatch: a transaction's jobs enqueued already assigned, delivered after its commit."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, evolve

from txqueue.model.assignment import Assignment
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.calls import (
    assigned_call,
    call_of,
    chunk_of_call,
    is_plain,
    job_object,
)

_MAY_UNDO = re.compile("savepoint|rollback|abort|prepare", re.IGNORECASE)

Query = Callable[[str, Sequence[object]], Awaitable[list[tuple[Any, ...]]]]


@define(eq=False)
class NodeCredit:
    """Credit for one run of a node.

    Attributes:
        node_id: The node.
        incarnation: The node's run.
        weight: The total weight of the jobs that this process may still assign to the node.
        is_own: Whether the node is the one that this process has joined.
    """

    node_id: int
    incarnation: int
    weight: int
    is_own: bool


class CreditHolder(Protocol):
    """Holds the credit of a process that has joined a node, and delivers the jobs enqueued."""

    def credit_for(self, weight: int) -> NodeCredit | None:
        """Return credit that covers a weight; None if there is none."""

    def deliver(self, jobs: Sequence[Assignment]) -> None:
        """Send committed jobs to the nodes that they are assigned to."""

    def wake(self) -> None:
        """Notify the joined node that jobs were committed which it may claim."""


class DirectDispatch:
    """Enqueues the work of one transaction of a process that has joined a node.

    Args:
        holder: Holds the credit.
        schema: The name of txqueue's schema.
    """

    def __init__(self, holder: CreditHolder, schema: str) -> None:
        self._holder = holder
        self._schema = schema
        self._spent: list[tuple[NodeCredit, int]] = []
        self._jobs: list[Assignment] = []
        self._wakes = False
        self._is_sure = True

    async def enqueue(self, query: Query, work: WorkItem, options: Mapping[str, Any]) -> int:
        """Enqueue work, already assigned if there is credit for it; return the job's number."""
        job = job_object(work, options)
        weight = job.get("weight", work.weight)
        # The database refuses an invalid weight, with and without direct dispatch.
        is_fit = type(weight) is int and weight > 0 and is_plain(job)
        credit = self._holder.credit_for(weight) if is_fit else None
        if credit is None:
            self._wakes = True
            return int((await query(*call_of(self._schema, job)))[0][0])
        return await self._assigned(query, job, credit, weight)

    async def _assigned(
        self, query: Query, job: dict[str, Any], credit: NodeCredit, weight: int
    ) -> int:
        credit.weight -= weight
        spent = (credit, weight)
        self._spent.append(spent)
        sql, parameters = assigned_call(self._schema, job, credit.node_id, credit.incarnation)
        ((job_id, assignment, lane, job_weight),) = (await query(sql, parameters))[0]
        if assignment is None:
            self._spent.remove(spent)
            credit.weight += weight
            self._wakes = True
        else:
            arguments = dict(zip(job, parameters[2:], strict=True))
            is_told = credit.is_own and self._is_sure
            chunk = chunk_of_call(job_id, job_weight, arguments) if is_told else ""
            job_assignment = Assignment(
                incarnation=credit.incarnation,
                number=assignment,
                lane=lane,
                jobs=1,
                weight=job_weight,
                chunk=chunk,
            )
            self._jobs.append(job_assignment)
        return int(job_id)

    def note_statement(self, sql: object) -> None:
        """Check whether a statement of the application may undo a part of the transaction.

        If so, the node gets only the assignments of the transaction's jobs, and reads from the
        database the jobs that exist.
        """
        if self._is_sure and not (isinstance(sql, str) and _MAY_UNDO.search(sql) is None):
            self._is_sure = False
            self._jobs = [evolve(job, chunk="") for job in self._jobs]

    def note_others(self) -> None:
        """Note that the transaction also enqueued jobs that must be claimed."""
        self._wakes = True

    def committed(self) -> None:
        """Deliver the enqueued jobs, as their transaction has committed."""
        if self._jobs:
            self._holder.deliver(self._jobs)
        if self._wakes:
            self._holder.wake()

    def rolled_back(self) -> None:
        """Return the spent credit and deliver nothing, as the transaction was rolled back.

        If its outcome is unknown and it did commit, the reconciliation of nodes returns its jobs.
        """
        for credit, weight in self._spent:
            credit.weight += weight
