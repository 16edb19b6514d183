"""The work item of the rows in which many clients enqueue.

It imports no more than a small application would, as a node's memory is measured with it.
"""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING, Any, cast

from attrs import define

from txqueue import WorkItem
from txqueue_bench.tally import Tally

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

__all__ = ["Brief", "Start", "Started", "starts_in"]

Start = tuple[int, int, int]
"""The client, its transaction, and when the job has started, in microseconds since 1970."""

# A client's transactions have numbers below this.
CLIENT = 1 << 40

_tally = Tally()


@define
class Started(WorkItem):
    """Work that records when it starts, by the numbers of its client and transaction."""

    client: int
    number: int

    work_type = "benchmarks.started"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Record the numbers, then the microseconds since 1970."""
        _tally.add(self.client * CLIENT + self.number)
        _tally.add(time.time_ns() // 1000)


@define
class Brief(Started):
    """The same, for 1 ms."""

    work_type = "benchmarks.brief"

    async def perform(self, job: Any) -> None:
        """Record, and wait."""
        from twisted.internet import reactor, task

        await super().perform(job)
        await task.deferLater(cast("IReactorTime", reactor), 0.001)


def starts_in(noted: array[int]) -> list[Start]:
    """Return what has been recorded."""
    return [
        (*divmod(which, CLIENT), moment)
        for which, moment in zip(noted[::2], noted[1::2], strict=True)
    ]
