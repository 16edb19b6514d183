"""A process that has joined a node: its committed job is on its way before anything else."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from attrs import define
from twisted.internet.task import Clock

from txqueue import WorkItem
from txqueue.client.node_link import Membership
from txqueue.client.queue import WorkQueue
from txqueue.model.assignment import Assignment
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.enqueueing.calls import NodeCredit


@define
class Step(WorkItem):
    """Some work."""

    work_type = "delivery.step"

    number: int = 0

    def perform(self, job: Any) -> None:
        """Do nothing."""


class Joined:
    """A pool with one connection, and the membership of its process; both note what happens."""

    def __init__(self) -> None:
        self.credit = NodeCredit(1, 2, 10, True)
        self.acts: list[str] = []
        self.error: Exception | None = None
        self.queue = WorkQueue(
            cast("ConnectionPool", self), "txqueue", cast("Any", Clock()), cast("Membership", self)
        )

    async def take(self) -> Any:
        """Lend the connection."""
        self.acts.append("take")
        return self

    def put_back(self, connection: object) -> None:
        """Note the end of the loan."""
        assert connection is self
        self.acts.append("put back")

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Nothing else is asked."""
        raise AssertionError(sql)

    query_dicts = query

    async def query_often(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """Answer as ``enqueue_assigned()`` does."""
        self.acts.append("query")
        if self.error is not None:
            raise self.error
        return [([17, 4, 3, 1],)]

    def credit_for(self, weight: int) -> NodeCredit | None:
        """Return the credit."""
        return self.credit

    def deliver(self, jobs: Sequence[Assignment]) -> None:
        """Note the delivery."""
        self.acts.append("deliver")


async def test_a_committed_job_is_delivered_before_its_connection_is_put_back() -> None:
    """The job waits for the message, and no caller waits for the connection."""
    joined = Joined()
    assert await joined.queue.enqueue(Step()) == 17
    assert joined.acts == ["take", "query", "deliver", "put back"]
    assert joined.credit.weight == 9


async def test_a_refused_job_gives_back_connection_and_credit() -> None:
    """And nothing is delivered."""
    joined = Joined()
    joined.error = RuntimeError("refused")
    with pytest.raises(RuntimeError):
        await joined.queue.enqueue(Step())
    assert joined.acts == ["take", "query", "put back"]
    assert joined.credit.weight == 10
