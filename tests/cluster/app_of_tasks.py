"""Functions as work."""

import asyncio
import threading
from typing import Any

from twisted.internet.defer import succeed

from txqueue import Retry, RunningJob, Runtime, task

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


@task(retry=Retry(attempts=2, first=0.01, jitter=0.0))
def fails(job: RunningJob, text: str) -> str:
    """Fail once."""
    if job.attempt == 1:
        raise ValueError(text)
    return text
