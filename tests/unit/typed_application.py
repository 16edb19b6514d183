"""An application as its author types it: mypy and pyright accept it, in their strict modes."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, assert_type

from attrs import define
from twisted.internet.defer import Deferred, succeed

from txqueue import (
    Attempt,
    Batch,
    EnqueueOptions,
    Every,
    ExistingTable,
    Fail,
    Key,
    Next,
    Parents,
    Priority,
    Retry,
    RunningJob,
    RunningPart,
    Schedules,
    ThreadJob,
    Transaction,
    WorkItem,
    WorkQueue,
    WorksetItem,
    WorksetStatus,
    middleware,
    task,
)

if TYPE_CHECKING:
    from txqueue import Mistake  # type: ignore[attr-defined]  # pyright: ignore  # noqa: F401


@define
class Plain(WorkItem):
    """Work whose keys are attributes."""

    order: int = 0

    tags = {"team": "billing"}
    group = "one at a time"
    tenant = "shop"
    unique = "only one"
    priority = Priority.HIGH
    timeout = timedelta(seconds=5)
    schedule = Every(60)

    async def perform(self, job: RunningJob) -> int:
        """Enqueue what follows."""
        await job.progress(1, 2)
        assert_type(job.parents, Parents | None)
        async with job.transaction() as txn:
            await txn.execute("select 1")
        raise Next(Computed(self.order), priority=5, not_before=None)


@define
class Computed(WorkItem):
    """Work whose keys are computed."""

    order: int

    @property
    def group(self) -> str:
        """One at a time for each order."""
        return f"order:{self.order}"

    @property
    def tags(self) -> dict[str, str]:
        """Name the order."""
        return {"order": str(self.order)}

    @property
    def unique(self) -> str | None:
        """Only one for each order."""
        return self.group if self.order else None

    async def perform(self, job: RunningJob) -> None:
        """Misspell an option."""
        if job.attempt > 1:
            raise Next(self, prority=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@define
class Declared(WorkItem):
    """Work whose keys are computed by whatever client enqueues it."""

    order: int

    group = Key("order:{order}")
    unique = Key("{order}")

    def perform(self, job: RunningJob) -> None:
        """Do nothing."""


@define
class Letter(WorksetItem):
    """An item of a workset."""

    customer: int

    source = ExistingTable("letters", key="customer")

    @classmethod
    async def perform_part(cls, items: Sequence["Letter"], part: RunningPart) -> None:
        """Fail all items."""
        for item in items:
            part.fail(item, Fail("no address"))


@task
async def greet(name: str, *, language: str = "en") -> int:
    """Say hello."""
    return len(name + language)


@task(name="letters.mail", queue="mail", retry=Retry(5), group=Key("user:{user}"))
def mail(job: RunningJob, user: int) -> bool:
    """Mail a user, in a thread."""
    return job.attempt > user


@task(prority=5)  # type: ignore[call-overload,untyped-decorator]  # pyright: ignore
def misspelled(number: int) -> None:
    """Misspell an option."""


@middleware(order=5)
async def watched(call_next: Callable[[], Awaitable[object]], job: RunningJob) -> object:
    """Watch each handler."""
    return await call_next() if job.attempt else None


@middleware
def connected(call_next: Callable[[], object], job: RunningJob) -> object:
    """Watch each handler in a thread."""
    return call_next() if job.attempt else None


async def call_and_enqueue(queue: WorkQueue, job: RunningJob) -> None:
    """Use tasks as functions and as work."""
    assert_type(await greet("ann", language="de"), int)
    assert_type(mail(job, 7), bool)
    assert_type(greet.work("ann"), WorkItem)
    await queue.enqueue(mail.work(7), priority=5)
    greet.work(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greet.work("ann", langauge="de")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    mail.work(job, 7)  # type: ignore[call-arg,arg-type]  # pyright: ignore[reportCallIssue]
    mail(7)  # type: ignore[call-arg,arg-type]  # pyright: ignore
    mail.work(7, queue="mail")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def coroutine(txn: Transaction, number: int) -> int:
    """Return a number, later."""
    await txn.execute("select 1")
    return number


def function(txn: Transaction) -> str:
    """Return a text at once."""
    return str(txn)


def deferred(txn: Transaction) -> Deferred[bytes]:
    """Return bytes, later."""
    return succeed(str(txn).encode())


async def enqueue_all(queue: WorkQueue) -> None:
    """Use each call once whose type was not said."""
    options: EnqueueOptions = {"priority": 4, "tags": {"campaign": "spring"}}
    job_id = await queue.enqueue(Plain(1), **options)
    assert_type(await queue.wait(job_id), object)
    assert_type(await queue.run_interaction(coroutine, 5), int)
    assert_type(await queue.run_interaction(function), str)
    assert_type(await queue.run_interaction(deferred), bytes)
    assert_type((await queue.job(job_id)).attempts, tuple[Attempt, ...])
    assert_type(await queue.workset(Letter), WorksetStatus)
    assert_type(queue.schedules, Schedules)
    async with queue.batch(Plain(2)) as batch:
        assert_type(batch, Batch)
        await batch.enqueue(Plain(3))


async def late(number: int) -> str:
    """Return a text, later."""
    return str(number)


def twice(number: int) -> tuple[int, ...]:
    """Return a number twice."""
    return number, number


def fired() -> Deferred[int]:
    """Return a number, later."""
    return succeed(1)


async def go_through_steps(job: RunningJob) -> None:
    """Get from each step what its function returns, or has awaited."""
    assert_type(await job.step("late", late, 1), str)
    assert_type(await job.step("twice", twice, 1, retry=Retry(3)), tuple[int, ...])
    assert_type(await job.step("fired", fired), int)
    async with job.step_transaction("book") as step:
        assert_type(step.txn, Transaction)


def go_through_steps_in_a_thread(job: ThreadJob) -> None:
    """Do the same by calls that block."""
    assert_type(job.step("twice", twice, 1), tuple[int, ...])
    with job.step_transaction("book") as step:
        assert_type(step.is_done, bool)
        step.txn.execute("select 1")
    for page in (cursor := job.cursor("pages", start=1)):
        cursor.following = page
    job.sleep("nap", 1)
    job.wait_for("signal", timeout=3)
