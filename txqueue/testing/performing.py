"""Performs one work item without a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from txqueue.errors import InvalidWork
from txqueue.model.assignment import FIELDS, Assignment
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.job_policy import Runtime
from txqueue.model.work_item import WorkItem
from txqueue.model.workset_item import WorksetJob
from txqueue.store.enqueueing.calls import job_object, json_text
from txqueue.system.clock import in_asyncio
from txqueue.testing.connections import apart, bound, in_django, is_asynchronous
from txqueue.testing.running import Outcome, run_here, run_waiting
from txqueue.testing.steps import BorrowedTransactions, Signals, StepsInMemory
from txqueue.worker.handlers.task import Task

# pytest and unittest leave this module out of tracebacks.
__tracebackhide__ = __unittest = True


def perform(
    work: WorkItem,
    *,
    connection: Any = None,
    schema: str | None = None,
    attempt: int = 1,
    steps: Mapping[str, Any] | None = None,
    signals: Signals = (),
    **options: Unpack[EnqueueOptions],
) -> Outcome:
    """Run the handler of a work item once, as a worker does, and return how that ended.

    The payload is written as JSON and read again; middleware, the retry policy and directives act.
    No job is enqueued, and none is completed. A function that runs in a thread elsewhere runs in
    the caller's, so that it can use the test's connection.

    Args:
        work: The work item.
        connection: What ``job.transaction()`` uses, in a savepoint; see `connected`.
        schema: The name of txqueue's schema; see `connected`.
        attempt: The number of the run.
        steps: What earlier runs have done, by the names of the steps: what each returned, or, of a
            wait or a call, the error that it raises. A sleep that is named is over.
        signals: The signals that were sent: a mapping, or pairs of a name and a value.
        options: As for ``enqueue``: ``tags``, ``attempts`` and what else a handler can see.

    Raises:
        InvalidWork: When the work or an option is not valid.
        TypeError: When it is a task, and no call of one; or the handler waits for a Deferred: call
            `aperform` with a reactor.
    """
    assignment = _assignment(work, options, attempt, bool(steps))
    runtime = type(work).runtime
    opener = BorrowedTransactions(
        lambda: bound(connection, schema),
        runtime is Runtime.ASYNCIO,
        is_blocking=runtime is Runtime.THREAD,
    )
    its_steps = StepsInMemory.of(opener, steps or {}, signals)
    return run_here(assignment, opener, its_steps, "aperform").outcome


async def aperform(
    work: WorkItem,
    *,
    connection: Any = None,
    schema: str | None = None,
    attempt: int = 1,
    steps: Mapping[str, Any] | None = None,
    signals: Signals = (),
    **options: Unpack[EnqueueOptions],
) -> Outcome:
    """Run the handler of a work item once, from a coroutine; see `perform`."""
    if in_asyncio() and in_django(connection):
        given: dict[str, Any] = {"attempt": attempt, "steps": steps, "signals": signals, **options}
        return await apart(perform, work, connection=connection, schema=schema, **given)
    assignment = _assignment(work, options, attempt, bool(steps))
    is_blocking = type(work).runtime is Runtime.THREAD
    is_apart = is_blocking and is_asynchronous(connection)
    opener = BorrowedTransactions(
        lambda: bound(connection, schema), in_asyncio(), is_blocking=is_blocking and not is_apart
    )
    its_steps = StepsInMemory.of(opener, steps or {}, signals)
    return (await run_waiting(assignment, opener, its_steps, is_apart=is_apart)).outcome


def _assignment(
    work: WorkItem, options: EnqueueOptions, attempt: int, has_steps: bool
) -> Assignment:
    """Return the assignment of a job that has no row."""
    if not isinstance(work, WorkItem):
        raise TypeError(_remedy(work))
    if isinstance(work, WorksetJob):
        raise InvalidWork("the jobs of worksets cannot be performed alone", "perform an item")
    job = job_object(work, options)
    # What enqueue would refuse, by the same path.
    json_text(job)
    terms = {**(job.get("options") or {}), "steps": True} if has_steps else job.get("options")
    entry = [0, work.work_type, attempt, work.weight, job["payload"], terms]
    chunk = json_text({"fields": FIELDS, "jobs": [entry]})
    return Assignment(incarnation=0, number=0, lane=0, jobs=1, weight=work.weight, chunk=chunk)


def _remedy(work: Any) -> str:
    """Return what to pass in place of what is no work item."""
    if isinstance(work, Task):
        call = f"{work.__name__}.work(...)"
        return f"{work.item.work_type} is a task: pass a call of it, as perform({call})"
    if isinstance(path := getattr(work, "module_path", None), str):
        call = f"txqueue.django.work({path.rpartition('.')[2]}, ...)"
        return f"{path} is a task of Django: pass a call of it, as perform({call})"
    return f"{work!r} is no work item: pass an instance of a class of work items"
