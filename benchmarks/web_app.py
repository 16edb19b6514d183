"""The application of `benchmarks.web_requests`: it enqueues, awaits results, and times its loop."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from attrs import define
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from txqueue import WorkItem
from txqueue.aio import AsyncTransaction, Queue
from txqueue.errors import DatabaseUnavailable

TICK: Final = 0.005
"""Seconds for which the loop's timer sleeps each time."""
ORDER: Final = """
    insert into orders (key) values (%s) on conflict (key) do update set key = excluded.key
    returning id
"""


@define
class Shrink(WorkItem):
    """Work that returns a value."""

    order_id: int
    work_type = "benchmarks.shrink"

    async def perform(self, job: Any) -> int:  # noqa: ARG002 - the handler's signature
        """Return the number of the order."""
        return self.order_id


class TimedSteps(Coroutine[Any, Any, Any]):
    """A coroutine of a request, whose steps from one wait to the next are timed.

    Args:
        inner: The coroutine.
        found: Gets the milliseconds of the processor that each step took.
    """

    def __init__(self, inner: Coroutine[Any, Any, Any], found: list[float]) -> None:
        self._inner = inner
        self._found = found

    def send(self, value: Any) -> Any:
        """Run a step."""
        return self._timed(self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        """Run a step that begins with an error."""
        return self._timed(self._inner.throw, *error)

    def close(self) -> None:
        """End it."""
        self._inner.close()

    def __await__(self) -> Any:
        """Run it inside of another."""
        return (yield from self._inner.__await__())

    def _timed(self, step: Callable[..., Any], *values: Any) -> Any:
        began = time.thread_time()
        try:
            return step(*values)
        finally:
            self._found.append((time.thread_time() - began) * 1000)


async def delays(found: list[float]) -> None:
    """Note in milliseconds how late the loop runs its timer, until cancelled."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(TICK)
        found.append((time.perf_counter() - began - TICK) * 1000)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect the queue, and time the loop."""
    app.state.delays, app.state.steps = [], []
    asyncio.get_running_loop().set_task_factory(
        lambda loop, inner, **more: asyncio.Task(
            TimedSteps(inner, app.state.steps), loop=loop, **more
        )
    )
    timing = asyncio.create_task(delays(app.state.delays))
    async with await Queue.connect(connections=10) as queue:
        app.state.queue = queue
        gc.collect()
        gc.freeze()
        yield
    timing.cancel()


async def queue_of(request: Request) -> Queue:
    """Return the queue of the process."""
    queue: Queue = request.app.state.queue
    return queue


async def transaction_of(
    queue: Annotated[Queue, Depends(queue_of)],
) -> AsyncIterator[AsyncTransaction]:
    """Open the transaction of a request."""
    async with queue.transaction() as txn:
        yield txn


async def place_order(
    key: str, txn: Annotated[AsyncTransaction, Depends(transaction_of, scope="function")]
) -> dict[str, int]:
    """Store an order and its job, once for each key."""
    cursor = await txn.execute(ORDER, [key])
    [order_id] = await cursor.fetchone() or (0,)
    return {"order": order_id, "job": await txn.enqueue(Shrink(order_id), unique=key)}


async def result_of(job_id: int, queue: Annotated[Queue, Depends(queue_of)]) -> dict[str, object]:
    """Await the result of a job."""
    return {"result": await queue.wait(job_id, timeout=60)}


async def times_of(request: Request) -> dict[str, list[float]]:
    """Return the delays of the loop and the times of the steps of requests since the last time."""
    state = request.app.state
    found = {"delays": list(state.delays), "steps": list(state.steps)}
    state.delays.clear()
    state.steps.clear()
    return found


async def unavailable(_: Request, error: Exception) -> JSONResponse:
    """Tell a client to try again."""
    return JSONResponse({"detail": str(error)}, 503)


def application() -> FastAPI:
    """Return the application."""
    app = FastAPI(lifespan=lifespan)
    app.add_api_route("/orders", place_order, methods=["POST"], status_code=201)
    app.add_api_route("/jobs/{job_id}", result_of)
    app.add_api_route("/times", times_of)
    app.add_exception_handler(DatabaseUnavailable, unavailable)
    return app
