"""Middleware of nodes: a module of its own, as tests import the tasks and must not have it."""

from collections.abc import Awaitable, Callable

from tests.cluster.app_of_tasks import seen
from txqueue import RunningJob, middleware


@middleware
def noting(call_next: Callable[[], object], job: RunningJob) -> object:
    """Note the attempt for the handler, in its thread."""
    seen.noted = job.attempt
    try:
        return call_next()
    finally:
        del seen.noted


@middleware
async def telling(call_next: Callable[[], Awaitable[object]], job: RunningJob) -> object:
    """Name the work type with the result."""
    return {job.work_type: await call_next()}
