"""The steps of a run: what earlier runs have done is not done again, and what the job waits for."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from datetime import timedelta
from inspect import isawaitable
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred

from txqueue.errors import (
    DatabaseUnavailable,
    InvalidWork,
    JobFailed,
    TimedOut,
    UnknownWorkType,
)
from txqueue.model.directives import DIRECTIVES
from txqueue.model.foreign import derives_from, is_a
from txqueue.model.job_policy import Retry
from txqueue.model.results import (
    ANY_KIND,
    MOST_STEPS,
    Memo,
    check_annotation,
    check_name,
    check_signal_name,
    read_result,
    result_type,
    seconds_of,
    step_text,
    type_text,
)
from txqueue.model.work_item import WorkItem, find_work_type
from txqueue.store.driver.awaitables import awaitable
from txqueue.store.enqueueing.encryption import (
    decrypted,
    decrypted_result,
    encrypted,
    is_encrypted,
)
from txqueue.store.enqueueing.portable_calls import SIGNAL_PART
from txqueue.store.enqueueing.steps import StepRun, StepWrite
from txqueue.worker.handlers.job_transaction import StepStore
from txqueue.worker.handlers.running_job import RunningJob, change
from txqueue.worker.handlers.step_scopes import StepTransaction
from txqueue.worker.handlers.step_waits import StepWaits

if TYPE_CHECKING:
    from txqueue.store.enqueueing.transaction import Transaction


_PART: Final = "step"


class JobSteps:
    """The steps of one run of a job.

    Args:
        job: The job.
        store: Reads and writes its steps.
        is_first: Whether no earlier run can have left any.

    Attributes:
        waits: What the run waits for.
    """

    def __init__(self, job: RunningJob, store: StepStore, *, is_first: bool) -> None:
        self._job = job
        self._store = store
        self._memos: dict[str, Memo] | None = {} if is_first else None
        # The bytes of the results, of each step and together.
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._loading: list[Deferred[None]] = []
        self._names: set[str] = set()
        self.waits = StepWaits(job, store)
        self._opening = 0

    # What a handler calls ----------------------------------------------------------------------

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        named: dict[str, Any],
        kind: Any,
    ) -> Any:
        """Call a function unless an earlier run has; return what it returned, as a given type."""
        retry: Retry | None = named.pop("retry", None)
        with self.waits.going_on(name):
            memo = await self.begin(name, "step")
            if memo is not None:
                return self.read(name, kind, memo.result)
            check_annotation(name, kind)
            with self.waits.inside(name):
                value = await self._tried(function, args, named, retry)
            text = step_text(name, value, kind)
            await self.write(name, "step", result=text)
        return read_result(name, kind, text, self._job.id)

    async def wait_for(
        self,
        name: str,
        timeout: float | timedelta | None,
        signal: str | None,
        kind: Any = Any,
        *,
        hold_group: bool = False,
    ) -> Any:
        """Return the value of a signal as a given type, or end the run until it comes."""
        signal = name if signal is None else signal
        check_signal_name(signal)
        seconds = None if timeout is None else seconds_of(timeout, "the timeout")
        with self.waits.going_on(name):
            memo = await self.begin(name, "signal")
            if memo is not None and memo.is_ended:
                return self._signalled(memo, signal, kind)
            is_over = memo is not None and memo.is_over
            text = await self.write(name, "signal", signal=signal, is_over=is_over)
            if text is not None:
                return self.read(name, kind, text, SIGNAL_PART)
            if is_over:
                raise _timed_out(name, signal)
            annotation = None if kind is Any else type_text(kind)
            wait = {"name": name, "kind": "signal", "signal": signal, "annotation": annotation}
            await self.waits.suspend(hold_group, **wait, seconds=seconds)

    async def sleep(
        self, name: str, length: float | timedelta, *, hold_group: bool = False
    ) -> None:
        """Return once a time is over that began when a run first called this."""
        seconds = seconds_of(length, "the length")
        with self.waits.going_on(name):
            memo = await self.begin(name, "sleep")
            if seconds == 0 if memo is None else memo.is_over:
                return
            await self.waits.suspend(hold_group, name=name, kind="sleep", seconds=seconds)

    async def call(
        self, name: str, work: WorkItem, options: dict[str, Any], *, hold_group: bool = False
    ) -> Any:
        """Return the result of a job that is enqueued once, or end the run until it ends."""
        with self.waits.going_on(name):
            memo = await self.begin(name, "call")
            if memo is None:
                child = await self._enqueue(name, work, options)
            elif memo.is_ended:
                return self._of_child(memo, work)
            else:
                assert memo.child is not None
                child = memo.child
                if memo.child_state in ("done", "failed", "cancelled", None):
                    return await self._ended_child(memo, work)
            await self.waits.suspend(hold_group, name=name, kind="call", child=child)

    @asynccontextmanager
    async def transaction(self, name: str) -> AsyncIterator[StepTransaction]:
        """Open a transaction that is a step, unless an earlier run has committed it."""
        memo = await self.begin(name, "step")
        if memo is not None:
            yield StepTransaction(name, is_done=True, result=self.read(name, Any, memo.result))
            return
        step = StepTransaction(name)
        opening = self._store.transaction(
            self._run, name, lambda: self._stored(name, step_text(name, step.result))
        )
        async with AsyncExitStack() as stack:
            step.txn = await self._opened(stack, opening)
            yield step
        step.end()

    # What these are made of --------------------------------------------------------------------

    async def begin(self, name: str, kind: str) -> Memo | None:
        """Begin a step; return what an earlier run has left of it.

        Raises:
            InvalidWork: When the name is not valid, or is that of another step.
            Suspended: When the run ends for a wait.
        """
        check_name(name)
        if kind in ("step", "cursor"):
            self.waits.check()
        if self._job.is_completed:
            raise InvalidWork(
                f"job {self._job.id} is completed, and step {name!r} comes too late",
                "do it before the end of job.transaction(), or in a job of its own",
            )
        self._take_name(name)
        memo = (await self._loaded()).get(name)
        if memo is not None and memo.kind not in (kind, ANY_KIND):
            raise InvalidWork(
                f"{name!r} of job {self._job.id} is a {kind} now, but was a {memo.kind}",
                "give the new one another name",
            )
        return memo

    def _take_name(self, name: str) -> None:
        if name in self._names:
            raise InvalidWork(
                f"job {self._job.id} uses the name {name!r} for two steps",
                'give each a name of its own: in a loop, f"page {number}"',
            )
        if len(self._names) == MOST_STEPS:
            raise InvalidWork(
                f"job {self._job.id} has {MOST_STEPS:,} steps, and {name!r} is one too many",
                "loop over job.cursor(), which is one step, or divide the work by job.call()",
            )
        self._names.add(name)

    async def write(
        self,
        name: str,
        kind: str,
        *,
        result: str | None = None,
        error: str | None = None,
        signal: str | None = None,
        is_over: bool = False,
        of: str | None = None,
    ) -> str | None:
        """Write a step; return the value of the signal that it took, as JSON text."""
        step = StepWrite(
            self._run,
            name,
            kind,
            result=self._stored(name, result),
            error=error,
            signal=signal,
            is_over=is_over,
            child_type=of,
        )
        taken: str | None = await awaitable(self._store.write(step))
        return taken

    def read(self, name: str, kind: Any, text: str | None, part: str = _PART) -> Any:
        """Return what a step has returned, decrypted if the type is encrypted."""
        if text is not None and '"encrypted"' in text and self._is_encrypted:
            value = read_result(name, Any, text)
            # What was kept or sent before the type was encrypted is in clear.
            if is_encrypted(value):
                text = step_text(name, decrypted(self._job.work_type, part, value))
        return read_result(name, kind, text, self._job.id)

    def _stored(self, name: str, text: str | None) -> str | None:
        if text is not None and self._is_encrypted:
            value = read_result("", Any, text)
            text = step_text("", encrypted(self._job.work_type, _PART, value))
        self._count(name, text)
        if self._size > self._store.limit and text is not None:
            size, limit = self._size, self._store.limit
            self._count(name, None)
            raise InvalidWork(
                f"step {name!r} makes the results of the steps of job {self._job.id} {size:,} bytes"
                f" of JSON together, more than the {limit:,} of this node",
                "store large data elsewhere and return its key, or raise --steps-limit",
            )
        return text

    def _count(self, name: str, text: str | None) -> None:
        size = len((text or "").encode())
        self._size += size - self._sizes.get(name, 0)
        self._sizes[name] = size

    @property
    def _run(self) -> StepRun:
        return StepRun(self._job.token, self._job.id, self._job.assignment.lane)

    @property
    def _is_encrypted(self) -> bool:
        return find_work_type(self._job.work_type).encrypted

    async def _loaded(self) -> dict[str, Memo]:
        """Return the steps of earlier runs, read once."""
        if self._memos is None:
            waiting: Deferred[None] = Deferred()
            self._loading.append(waiting)
            if len(self._loading) == 1:
                # Apart from all callers: one that is cancelled must not fail the others.
                Deferred.fromCoroutine(self._load())
            await awaitable(waiting)
        assert self._memos is not None
        return self._memos

    async def _load(self) -> None:
        error: BaseException | None = None
        try:
            with self._unspent():
                memos = await self._store.load(self._job.id)
            for memo in memos:
                self._count(memo.name, memo.result)
            self._memos = {memo.name: memo for memo in memos}
        except BaseException as caught:
            error = caught
        waiting, self._loading = self._loading, []
        for each in waiting:
            if error is None:
                each.callback(None)
            else:
                each.errback(error)

    @property
    def waits_for_connection(self) -> bool:
        """Whether a transaction of the run waits for a connection."""
        return self._opening > 0

    async def _opened(
        self, stack: AsyncExitStack, opening: AbstractAsyncContextManager[Transaction]
    ) -> Transaction:
        """Open a transaction once there is a connection."""
        self._opening += 1
        try:
            with self._unspent():
                return await stack.enter_async_context(opening)
        finally:
            self._opening -= 1

    @contextmanager
    def _unspent(self) -> Iterator[None]:
        """Have the run spend no attempt if it ends as these statements get no connection."""
        try:
            yield
        except DatabaseUnavailable as error:
            change(self._job, unavailable=error)
            raise

    async def _tried(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        named: dict[str, Any],
        retry: Retry | None,
    ) -> Any:
        """Call a function, and again in place if the step has a retry policy."""
        failures = 0
        while True:
            try:
                value = function(*args, **named)
                if derives_from(value, Deferred):
                    value = awaitable(value)
                return await value if isawaitable(value) else value
            except Exception as error:
                failures += 1
                if retry is None or retry.is_spent(failures) or isinstance(error, retry.fatal):
                    raise
                # What is about the job, such as Throttled.
                if is_a(error, *DIRECTIVES):
                    raise
            await awaitable(self._store.pause(retry.delay(failures, random.random())))

    def _signalled(self, memo: Memo, signal: str, kind: Any) -> Any:
        if memo.error is not None:
            raise _timed_out(memo.name, signal)
        return self.read(memo.name, kind, memo.result, SIGNAL_PART)

    async def _enqueue(self, name: str, work: WorkItem, options: dict[str, Any]) -> int:
        enqueueing = Deferred.fromCoroutine(self._enqueued(name, work, options))
        child: int = await awaitable(enqueueing)
        return child

    async def _enqueued(self, name: str, work: WorkItem, options: dict[str, Any]) -> int:
        child = 0
        calling = self._store.calling(self._run, name, lambda: child)
        with self._unspent():
            async with AsyncExitStack() as stack:
                txn = await self._opened(stack, calling)
                child = await txn.enqueue(work, **options)
        return child

    async def _ended_child(self, memo: Memo, work: WorkItem) -> Any:
        """Keep how the child of a call has ended, and return its result."""
        if memo.child_state == "done":
            await self.write(memo.name, "call", result=memo.child_result, of=memo.child_type)
            return self._result_of(memo, work, memo.child_result)
        reason = (memo.child_error or "no reason given").splitlines()[0]
        how = memo.child_state or "gone, and its history dropped"
        error = f"job {memo.child}, called by step {memo.name!r}, is {how}: {reason}"
        await self.write(memo.name, "call", error=error)
        raise self._failed_call(memo.name, error)

    def _failed_call(self, name: str, error: str) -> JobFailed:
        again = f"txqueue retry {self._job.id} --from {quote(name)}"
        failure = JobFailed(error, f"this call keeps that; to repeat it: {again}")
        failure.is_kept = True
        return failure

    def _of_child(self, memo: Memo, work: WorkItem) -> Any:
        if memo.error is not None:
            raise self._failed_call(memo.name, memo.error)
        kept = self.read(memo.name, Any, memo.result)
        return self._result_of(memo, work, step_text(memo.name, kept))

    def _result_of(self, memo: Memo, work: WorkItem, text: str | None) -> Any:
        """Return the result of a child, which is stored as its last stage has stored it."""
        of = memo.child_type or type(work).work_type
        if text is not None and '"encrypted"' in text:
            text = step_text(memo.name, decrypted_result(of, read_result(memo.name, Any, text)))
        return read_result(memo.name, _type_of_results(of, type(work)), text, self._job.id)


def _type_of_results(work_type: str, called: type[WorkItem]) -> Any:
    """Return the type of the results of a work type; Any for one that is not known here."""
    if work_type == called.work_type:
        return result_type(called.perform)
    try:
        return result_type(find_work_type(work_type).perform)
    except UnknownWorkType:
        return Any


def _timed_out(name: str, signal: str) -> TimedOut:
    return TimedOut(
        f"the signal {signal!r} for which step {name!r} waits did not come in time",
        "catch TimedOut if the job can go on without it",
    )
