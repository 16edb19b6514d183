"""Functions as work."""

import asyncio
import threading
from typing import Any

from twisted.internet.defer import succeed

from txqueue import RunningJob, Runtime, task

seen = threading.local()


@task
async def add(left: int, right: int = 1) -> int:
    """Return the sum."""
    return await succeed(left + right)


@task(runtime=Runtime.ASYNCIO, queue="other")
async def multiply(job: RunningJob, left: int, *, right: int) -> list[int]:
    """Return the job's number and the product."""
    await asyncio.sleep(0)
    return [job.id, left * right]


@task(name="tasks.in_thread")
def in_thread(text: str) -> Any:
    """Return what the middleware has noted in this thread."""
    return [text, seen.noted]
