"""``python -m txqueue_torture.client``: an application that enqueues, and records each enqueue."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.internet.task import deferLater, react

from txqueue.client.queue import IClientReactor, WorkQueue
from txqueue.errors import DatabaseUnavailable, InvalidWork, Refused, TxqueueError
from txqueue_torture.recorder import Recorder, recorder
from txqueue_torture.work import KINDS, Draw, Order

__all__ = ["main"]

# The most concurrent enqueues; seconds to wait for them at the end; and the limit for each.
MOST_UNDER_WAY = 50
GRACE = 10.0
PATIENCE = 20.0
ASK_EVERY = 0.25
SURE = (Refused, InvalidWork)


class RolledBack(Exception):
    """Raised to roll back a transaction."""


@frozen
class ClientPlan:
    """A client's plan, read from standard input.

    Attributes:
        name: The prefix of the names, or intents, that it gives to its jobs.
        kinds: The names of the kinds of work that it enqueues, in turn, such as ``noop`` or
            ``slow:2``; the text after a colon is an argument of the kind.
        rate: Enqueues per second.
        count: How many enqueues in all; None to continue until the client is stopped.
        node: The endpoint of the node to join; empty for none.
        app: Modules that register more kinds of work.
        together: How many jobs of a kind without options it enqueues in one transaction.
    """

    name: str
    kinds: list[str]
    rate: float
    count: int | None = None
    node: str = ""
    app: list[str] = field(factory=list)
    together: int = 1


@frozen
class _Named:
    """An order, and the names of its kind and of the job."""

    kind: str
    intent: str
    order: Order


@define
class Client:
    """Enqueues as a plan says, and records each enqueue.

    Args:
        reactor: The running reactor.
        plan: The client's plan.
        diary: The recorder.
        queue: The queue.
        offset: The database's clock minus the host's monotonic clock.
    """

    reactor: IClientReactor
    plan: ClientPlan
    diary: Recorder
    queue: WorkQueue
    offset: float
    is_stopping: bool = False
    under_way: set[Deferred[None]] = field(factory=set)

    async def run(self) -> None:
        """Enqueue until the plan is done or `stop` is called; then wait for unanswered enqueues."""
        began, number = time.monotonic(), 0
        while not self.is_stopping and number != self.plan.count:
            due = began + number / self.plan.rate
            await deferLater(self.reactor, max(0.0, due - time.monotonic()))
            if len(self.under_way) >= MOST_UNDER_WAY:
                began += 1 / self.plan.rate
                continue
            after = number + self.plan.together
            after = after if self.plan.count is None else min(after, self.plan.count)
            self._begin(range(number, after))
            number = after
        await self._finish()

    def stop(self) -> None:
        """Stop enqueuing."""
        self.is_stopping = True

    def _begin(self, numbers: range) -> None:
        running = Deferred.fromCoroutine(self._enqueue([self._order(number) for number in numbers]))
        self.under_way.add(running)
        running.addBoth(lambda _: self.under_way.discard(running))

    def _order(self, number: int) -> _Named:
        kind, _, value = self.plan.kinds[number % len(self.plan.kinds)].partition(":")
        intent = f"{self.plan.name}-{number}"
        draw = Draw(intent, number, time.monotonic() + self.offset, value)
        return _Named(kind, intent, KINDS[kind](draw))

    async def _finish(self) -> None:
        pending = list(self.under_way)
        if pending:
            ended = gatherResults(pending, consumeErrors=True)
            ended.addTimeout(GRACE, self.reactor)
            ended.addErrback(lambda _: None)
            await ended

    async def _enqueue(self, named_orders: list[_Named]) -> None:
        for named_order in named_orders:
            entry = _order_entry(named_order.intent, named_order.order)
            self.diary.write("enqueue", outcome="attempted", kind=named_order.kind, **entry)
        doing = self._carry_out([named_order.order for named_order in named_orders])
        trying = Deferred.fromCoroutine(doing).addTimeout(PATIENCE, self.reactor)
        outcome, error_text = "unknown", None
        job_ids: Sequence[int | None] = [None] * len(named_orders)
        try:
            job_ids = await trying
            outcome = "acknowledged"
        except RolledBack:
            outcome = "rolled back"
        except SURE:
            outcome = "refused"
        except (DatabaseUnavailable, CancelledError, Exception) as error:
            # The error may have occurred after the commit.
            error_text = f"{type(error).__name__}: {error}"[:300]
        for named_order, job_id in zip(named_orders, job_ids, strict=True):
            answer = {"intent": named_order.intent, "outcome": outcome, "job_id": job_id}
            self.diary.write("enqueue", **answer, said=error_text)

    async def _carry_out(self, orders: list[Order]) -> list[int]:
        order, *others = orders
        if others:
            return await self.queue.enqueue_many(order.work for order in orders)
        options: Any = order.options
        if order.way in {"plain", "refuse"}:
            return [await self.queue.enqueue(order.work, **options)]
        async with self.queue.transaction() as txn:
            job_id = await txn.enqueue(order.work, **options)
            if order.way == "roll back":
                raise RolledBack
        return [job_id]


def _order_entry(intent: str, order: Order) -> dict[str, Any]:
    """Return what is recorded about an order before it is enqueued."""
    moments = {name: order.options.get(name) for name in ("not_before", "not_after")}
    stamps = {name: moment and moment.timestamp() for name, moment in moments.items()}
    expires = order.options.get("expires", getattr(order.work, "expires", False))
    group = order.options.get("group") or order.work.group
    return {"intent": intent, "group": group, "expires": bool(expires), **stamps}


async def _connected(
    reactor: IClientReactor, plan: ClientPlan, is_over: Callable[[], bool]
) -> WorkQueue | None:
    """Connect, retrying while the database is unavailable; return None once `is_over` is true."""
    while not is_over():
        try:
            return await WorkQueue.connect(node=plan.node)
        except TxqueueError:
            await deferLater(reactor, ASK_EVERY)
    return None


async def _clock_offset(
    reactor: IClientReactor, diary: Recorder, is_over: Callable[[], bool]
) -> float:
    while (at := diary.at()) is None and not is_over():
        await deferLater(reactor, ASK_EVERY)
    return (at or time.time()) - time.monotonic()


async def run(reactor: IClientReactor, plan: ClientPlan) -> None:
    """Run a plan to its end or until SIGTERM.

    Args:
        reactor: The running reactor.
        plan: The client's plan.
    """
    diary, ended = recorder("client"), Deferred[None]()
    stops: list[Callable[[], None]] = []

    def stop(*_: object) -> None:
        if not ended.called:
            ended.callback(None)
        for action in stops:
            action()

    # The reactor installs its own signal handlers when it starts.
    await deferLater(reactor, 0)
    signal.signal(signal.SIGTERM, lambda *_: reactor.callFromThread(stop))
    offset = await _clock_offset(reactor, diary, lambda: ended.called)
    queue = await _connected(reactor, plan, lambda: ended.called)
    if queue is None:
        return
    client = Client(reactor, plan, diary, queue, offset)
    stops.append(client.stop)
    if not ended.called:
        diary.write("up", client=plan.name, pid=os.getpid())
        await client.run()
    await queue.close()
    diary.close()


def main() -> None:
    """Run the plan that standard input has as JSON."""
    plan = ClientPlan(**json.load(sys.stdin))
    sys.path.insert(0, "")
    for module in plan.app:
        importlib.import_module(module)
    react(lambda reactor: Deferred.fromCoroutine(run(reactor, plan)))


if __name__ == "__main__":
    main()
