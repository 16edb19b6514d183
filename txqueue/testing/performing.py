"""Perform a call in a test, or run the jobs that the test's connection sees."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias, Unpack
from uuid import uuid4

from attrs import define, evolve, field

from txqueue.adapters.calls import sqlstate_of
from txqueue.errors import InvalidWork, TokenLost, TransactionMisused
from txqueue.model.assignment import FIELDS, Assignment, SettledJob, read_chunk
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.job_policy import Runtime
from txqueue.model.sqlstates import LOCK_NOT_AVAILABLE
from txqueue.model.work_item import WorkItem, type_version
from txqueue.model.workset_item import WorksetJob
from txqueue.node.settings import policy_row, served_types
from txqueue.store.enqueueing.calls import job_object, json_text
from txqueue.store.enqueueing.portable_calls import SAVEPOINT
from txqueue.store.given_jobs import GivenJobs, JobSearch, last_number
from txqueue.system.clock import in_asyncio, unbroken
from txqueue.testing.assertions import Kind, Wanted, matching, searched
from txqueue.testing.connections import Bound, alias_of, apart, bound, finished, is_asynchronous
from txqueue.testing.running import Outcome, RunInTest, has_runtime
from txqueue.testing.steps import BorrowedTransactions, Signals, StepsInMemory, StepsOfRows
from txqueue.worker.handlers.running_job import RunningJob
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
    assignment = assignment_of(work, options, attempt, has_steps=bool(steps))
    opener = BorrowedTransactions(
        lambda: bound(connection, schema),
        type(work).runtime is Runtime.ASYNCIO,
        is_blocking=type(work).runtime is Runtime.THREAD,
    )
    run = RunInTest(assignment, opener, StepsInMemory.of(opener, steps or {}, signals))
    return run.here("aperform")


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
    if in_asyncio() and alias_of(connection) is not None:
        given: dict[str, Any] = {"attempt": attempt, "steps": steps, "signals": signals, **options}
        return await apart(perform, work, connection=connection, schema=schema, **given)
    assignment = assignment_of(work, options, attempt, has_steps=bool(steps))
    is_blocking = type(work).runtime is Runtime.THREAD
    is_apart = is_blocking and is_asynchronous(connection)
    opener = BorrowedTransactions(
        lambda: bound(connection, schema), in_asyncio(), is_blocking=is_blocking and not is_apart
    )
    run = RunInTest(assignment, opener, StepsInMemory.of(opener, steps or {}, signals), is_apart)
    return await run.waiting()


def assignment_of(
    work: WorkItem, options: EnqueueOptions, attempt: int, *, has_steps: bool
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


Where: TypeAlias = Kind | Mapping[str, Any] | Iterable[Kind | int] | None
Until: TypeAlias = datetime | timedelta | None

_LATER: Final = ("retry", "snooze")


def drain(
    where: Where = None,
    *,
    until: Until = None,
    limit: int = 1000,
    raise_errors: bool = True,
    connection: Any = None,
    schema: str | None = None,
) -> list[Outcome]:
    """Run jobs here, one after the other, until none of them is due; return how the runs ended.

    The jobs are claimed, run and ended as on a node, over the test's connection and in its
    transaction, which stays open. Those that they enqueue, and those that wait for them, run too.
    `Throttled` postpones its own job only.

    Args:
        where: The jobs to begin with: a class or task, a mapping of what `assert_enqueued` takes as
            ``match``, or a list of classes and numbers of jobs. None for those that the open
            transaction has enqueued; without one, for all.
        until: A moment or a time from now: what is due by then runs too, in the order of time, and
            so do retries and snoozes that end by then. None for now.
        limit: The most runs.
        raise_errors: Whether the first failed attempt raises the error of its handler.
        connection: The test's connection; see `connected`.
        schema: The name of txqueue's schema; see `connected`.

    Raises:
        AssertionError: When ``limit`` runs have not been enough; says which they were.
        BaseException: What a handler raised, once the attempt is stored as failed.
        TypeError: When a handler waits for a Deferred: call `adrain` with a reactor.
    """

    async def run(its: RunInTest) -> Outcome:
        return its.here("adrain")

    draining = _drained(connection, schema, where, until, _Terms(run, limit, raise_errors))
    return finished(draining, connection, "adrain()")


async def adrain(
    where: Where = None,
    *,
    until: Until = None,
    limit: int = 1000,
    raise_errors: bool = True,
    connection: Any = None,
    schema: str | None = None,
) -> list[Outcome]:
    """Run jobs here, over any connection, with handlers that wait; see `drain`."""
    if in_asyncio() and alias_of(connection) is not None:
        options: dict[str, Any] = {"limit": limit, "raise_errors": raise_errors}
        return await apart(
            drain, where, until=until, connection=connection, schema=schema, **options
        )
    terms = _Terms(RunInTest.waiting, limit, raise_errors, in_asyncio())
    return await _drained(connection, schema, where, until, terms)


@define
class _Terms:
    """How a drain runs jobs.

    Attributes:
        run: Runs one.
        limit: The most runs.
        raise_errors: Whether the first error is raised.
        is_of_asyncio: Whether a loop of asyncio's runs all handlers; None if only their own.
    """

    run: Callable[[RunInTest], Awaitable[Outcome]]
    limit: int
    raise_errors: bool
    is_of_asyncio: bool | None = None

    def runs_in_asyncio(self, work_type: str) -> bool:
        """Tell whether the handlers of a work type run in a loop of asyncio's."""
        if self.is_of_asyncio is not None:
            return self.is_of_asyncio
        return has_runtime(work_type, Runtime.ASYNCIO)


async def _drained(
    connection: Any, schema: str | None, where: Where, until: Until, terms: _Terms
) -> list[Outcome]:
    until, session = _checked(until), await bound(connection, schema)
    given = GivenJobs(session.schema, session.style)
    types = [cls for cls in served_types() if not issubclass(cls, WorksetJob)]
    since = int(await session.value(last_number(session.schema, session.style)))
    ids = await _first_jobs(session, where)
    moment = await _moment(session, given, until)
    node = await _registered(session, given, [policy_row(cls) for cls in types])
    names = [name for cls in types for name in (cls.work_type, type_version(cls))]
    drain = _Drain(session, given, terms, node, names, ids, since, moment)
    try:
        await drain.run()
    finally:
        # Whatever ended the drain counts more.
        with suppress(Exception):
            await unbroken(session.value(given.leave(node[1])))
    return drain.outcomes


async def _registered(
    session: Bound, given: GivenJobs, work_types: list[dict[str, Any]]
) -> tuple[int, int]:
    name = f"txqueue.testing {os.getpid()} {uuid4().hex[:12]}"
    try:
        node_id, incarnation = json.loads(await session.value(given.register(name, work_types)))
    except Exception as error:
        if sqlstate_of(error) != LOCK_NOT_AVAILABLE:
            raise
        raise TransactionMisused(
            "another transaction that has run jobs is open, and this one has waited 10 s for it",
            "roll it back first, or pass its connection= to both",
        ) from error
    return node_id, incarnation


async def _first_jobs(session: Bound, where: Any) -> set[int]:
    if where is None:
        return {job.id for job, _ in await searched(session, JobSearch(is_own=session.is_open))}
    is_list = isinstance(where, Iterable) and not isinstance(where, Mapping | type)
    listed = list(where) if is_list else [where]
    ids = {each for each in listed if isinstance(each, int)}
    for each in listed:
        if not isinstance(each, int):
            kind, match = (None, each) if isinstance(each, Mapping) else (each, {})
            ids |= {job.id for job, _ in await matching(session, Wanted.of(kind, match))}
    return ids


def _checked(until: Any) -> Until:
    if not isinstance(until, datetime | timedelta | None):
        raise TypeError(f"until={until!r} is no moment and no length of time; pass a timedelta")
    if isinstance(until, datetime) and until.utcoffset() is None:
        raise ValueError(f"until={until!r} has no time zone; pass datetime.now(UTC) or the like")
    if isinstance(until, timedelta) and until < timedelta(0):
        raise ValueError(f"until={until!r} is in the past; pass a time from now on")
    return until


async def _moment(session: Bound, given: GivenJobs, until: Until) -> datetime:
    seconds = until.total_seconds() if isinstance(until, timedelta) else 0.0
    now = datetime.fromisoformat(await session.value(given.moment(seconds)))
    return max(now, until) if isinstance(until, datetime) else now


@define
class _Drain:
    """One drain: the state that its runs change."""

    session: Bound
    given: GivenJobs
    terms: _Terms
    node: tuple[int, int]
    work_types: list[str]
    ids: set[int]
    since: int
    until: datetime
    # The moment that counts as now: it goes on to the next job that is due by the last one.
    now: str = "-infinity"
    outcomes: list[Outcome] = field(factory=list)

    async def run(self) -> None:
        """Run jobs until none is due."""
        while (claimed := await self._claim()) is not None:
            if len(self.outcomes) >= self.terms.limit:
                raise AssertionError(self._unending())
            await self._run(claimed)

    async def _claim(self) -> dict[str, Any] | None:
        while True:
            claiming = self.given.claim(
                self.node,
                self.work_types,
                given=self.ids,
                since=self.since,
                is_own=self.session.is_open,
                moment=self.now,
            )
            claimed: dict[str, Any] = json.loads(await self.session.value(claiming))
            if "assignment" in claimed:
                self.ids.update(claimed["children"] or ())
                return claimed
            if not await self._goes_on(claimed["next_at"]):
                return None

    async def _goes_on(self, next_at: str | None) -> bool:
        """Go on to the moment of the next job; return whether it is due by the last one."""
        if next_at is None or datetime.fromisoformat(next_at) > self.until:
            return False
        self.now = next_at
        return True

    async def _run(self, claimed: dict[str, Any]) -> None:
        chunk, ahead = claimed["chunk"], claimed["ahead"]
        job = read_chunk(chunk)[0]
        assignment = Assignment(
            incarnation=self.node[1],
            number=claimed["assignment"],
            lane=claimed["lane"],
            jobs=1,
            weight=job.weight,
            chunk=chunk,
            # By the moment that counts as now, the job may have expired.
            asked_at=time.monotonic() - ahead,
        )
        complete = partial(self._complete, assignment)
        is_of_asyncio = self.terms.runs_in_asyncio(job.work_type)
        is_blocking = has_runtime(job.work_type, Runtime.THREAD)
        is_apart = is_blocking and self.session.is_asynchronous
        opener = BorrowedTransactions(
            self._borrow, is_of_asyncio, complete, is_blocking=is_blocking and not is_apart
        )
        steps = StepsOfRows(opener, schema=self.session.schema, ahead=ahead)
        run = RunInTest(assignment, opener, steps, is_apart)
        outcome = await self._within_savepoint(run)
        if not run.is_written:
            await self._write(run, ahead)
        elif run.report.late_result is not None:
            token = self.node[1], assignment.number, job.job_id
            await self.session.value(self.given.note_late_result(*token, run.report.late_result))
        self.outcomes.append(outcome)
        if self.terms.raise_errors:
            _raise(outcome, run.report.late_error)

    async def _borrow(self) -> Bound:
        return self.session

    async def _within_savepoint(self, run: RunInTest) -> Outcome:
        """Run a job; if one of its statements has failed the transaction, undo what it did."""
        if self.session.is_alone:
            return await self.terms.run(run)
        await self.session.value((SAVEPOINT.opening, ()))
        outcome = await self.terms.run(run)
        try:
            await self.session.value((SAVEPOINT.closing, ()))
        except Exception:
            await self.session.undo(SAVEPOINT)
        return outcome

    async def _write(self, run: RunInTest, ahead: float) -> None:
        # A hold would last by the server's clock, whatever moment counts as now.
        settled = evolve(run.settled, throttled=None)
        if settled.outcome in _LATER and settled.delay is not None:
            settled = evolve(settled, delay=settled.delay + ahead)
        if settled.waits:
            settled = evolve(settled, waits=[_postponed(wait, ahead) for wait in settled.waits])
        await self.session.value(self.given.settle(self.node[1], [settled]))

    async def _complete(self, assignment: Assignment, job: RunningJob) -> None:
        """Complete a job at the end of its own transaction."""
        done = SettledJob(
            *(job.id, assignment.number, "done"),
            result=json.loads(job.result or "null"),
            progress=json.loads(job.last_progress or "null"),
            cost=job.settled_cost,
        )
        if await self.session.value(self.given.settle(self.node[1], [done])) != "1":
            raise TokenLost(f"job {job.id} has ended meanwhile", "end it once only")

    def _unending(self) -> str:
        runs = Counter((each.work_type, each.kind) for each in self.outcomes)
        named = ", ".join(
            f"{work_type} {kind} ({number})" for (work_type, kind), number in runs.most_common(10)
        )
        return (
            f"{self.terms.limit} runs were not enough: {named}; pass limit=, an earlier until=, or"
            " where= for the jobs that the test is about"
        )


def _postponed(wait: Mapping[str, Any], ahead: float) -> Mapping[str, Any]:
    return {**wait, "seconds": wait["seconds"] + ahead} if "seconds" in wait else wait


def _raise(outcome: Outcome, late_error: str | None) -> None:
    if outcome.error is not None:
        raise outcome.error
    if late_error is not None:
        raise AssertionError(f"job {outcome.job_id} ({outcome.work_type}): {late_error}")
    if outcome.kind in ("unread", "failed"):
        raise InvalidWork(outcome.reason or f"job {outcome.job_id} has failed", "fix what it says")
