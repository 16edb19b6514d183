"""Direct dispatch of one transaction: no message is sent before its commit."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import define
from twisted.internet.defer import Deferred

from txqueue import WorkItem
from txqueue.model.assignment import AssignedJob, Assignment, read_chunk
from txqueue.store.driver.connection import Connection
from txqueue.store.enqueueing.calls import DirectDispatch, NodeCredit
from txqueue.store.enqueueing.transaction import Transaction


@define
class Step(WorkItem):
    """Some work."""

    work_type = "dispatch.step"

    number: int = 0

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Grouped(WorkItem):
    """One at a time."""

    work_type = "dispatch.grouped"

    @property
    def group(self) -> str:
        """The same for all."""
        return "all"

    def perform(self, job: Any) -> None:
        """Do nothing."""


class Street:
    """Credit of one node, and a database that numbers jobs."""

    def __init__(self, weight: int = 10, *, is_own: bool = True) -> None:
        self.credit = NodeCredit(1, 2, weight, is_own)
        self.delivered: list[Assignment] = []
        self.wakes = 0
        self.asked: list[str] = []
        self.is_willing = True
        self.fails = False

    def credit_for(self, weight: int) -> NodeCredit | None:
        """Return the credit if it covers that."""
        return self.credit if self.credit.weight >= weight else None

    def deliver(self, jobs: Sequence[Assignment]) -> None:
        """Note them."""
        self.delivered += jobs

    def wake(self) -> None:
        """Note it."""
        self.wakes += 1

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Answer as the stored functions do."""
        self.asked.append(sql)
        if self.fails:
            raise RuntimeError("refused")
        number = len(self.asked)
        if "enqueue_assigned" not in sql:
            return [(number,)]
        return [([number, *((100 + number, 3, 1) if self.is_willing else (None, None, None))],)]


@pytest.fixture
def street() -> Street:
    """A holder with credit for 10."""
    return Street()


def dispatch(street: Street) -> DirectDispatch:
    """A transaction on it."""
    return DirectDispatch(street, "txqueue")


async def test_after_the_commit(street: Street) -> None:
    """All of them in one message, as the database would write them."""
    this = dispatch(street)
    assert [await this.enqueue(street.query, Step(n), {}) for n in (7, 8)] == [1, 2]
    assert street.delivered == []
    this.committed()
    assert [(job.incarnation, job.lane, job.number) for job in street.delivered] == [
        (2, 3, 101),
        (2, 3, 102),
    ]
    (job,) = read_chunk(street.delivered[0].chunk)
    assert job == AssignedJob(1, "dispatch.step", 1, 1, {"number": 7})
    assert (street.credit.weight, street.wakes) == (8, 0)


async def test_options_go_with_the_job(street: Street) -> None:
    """Those that a worker reads."""
    this = dispatch(street)
    await this.enqueue(street.query, Step(), {"timeout": 2.5, "attempts": 3, "priority": 7})
    this.committed()
    (job,) = read_chunk(street.delivered[0].chunk)
    assert job.terms == {"timeout": 2.5, "attempts": 3}


async def test_a_rollback(street: Street) -> None:
    """Sends nothing, and the credit is there again; but not if it was withdrawn meanwhile."""
    this = dispatch(street)
    await this.enqueue(street.query, Step(), {})
    withdrawn = street.credit
    this.rolled_back()
    assert (street.delivered, street.wakes, withdrawn.weight) == ([], 0, 10)


async def test_a_job_that_is_refused(street: Street) -> None:
    """Costs no credit."""
    this = dispatch(street)
    street.fails = True
    with pytest.raises(RuntimeError):
        await this.enqueue(street.query, Step(), {})
    this.rolled_back()
    assert (street.delivered, street.credit.weight) == ([], 10)


@pytest.mark.parametrize(
    ("work", "options"),
    [
        (Grouped(), {}),
        (Step(), {"group": "a"}),
        (Step(), {"tenant": "a"}),
        (Step(), {"weight": 11}),
    ],
)
async def test_the_ordinary_road(street: Street, work: WorkItem, options: dict[str, Any]) -> None:
    """For what needs a decision or is too heavy; the node is woken."""
    this = dispatch(street)
    await this.enqueue(street.query, work, options)
    this.committed()
    assert "enqueue_assigned" not in street.asked[0]
    assert (street.delivered, street.wakes, street.credit.weight) == ([], 1, 10)


async def test_the_database_decides(street: Street) -> None:
    """The database may refuse direct dispatch: the credit is returned."""
    street.is_willing = False
    this = dispatch(street)
    assert await this.enqueue(street.query, Step(), {}) == 1
    this.committed()
    assert (street.delivered, street.wakes, street.credit.weight) == ([], 1, 10)


async def test_jobs_of_another_node() -> None:
    """Only their numbers are sent: payloads do not cross hosts."""
    street = Street(is_own=False)
    this = dispatch(street)
    await this.enqueue(street.query, Step(), {})
    this.committed()
    assert [job.chunk for job in street.delivered] == [""]


@pytest.mark.parametrize(
    "statement",
    ["savepoint a", "ROLLBACK TO a", "select 1; Rollback to savepoint a", b"select 1"],
)
async def test_savepoints(street: Street, statement: object) -> None:
    """What was enqueued may be undone in part: the node reads what there is."""
    this = dispatch(street)
    await this.enqueue(street.query, Step(), {})
    this.note_statement("select 1")
    this.note_statement(statement)
    await this.enqueue(street.query, Step(), {})
    this.committed()
    assert [job.chunk for job in street.delivered] == ["", ""]


async def test_two_at_a_time(street: Street) -> None:
    """The credit of a job that must be claimed is returned, the other's is spent."""
    this = dispatch(street)
    first, second = Deferred[None](), Deferred[None]()

    async def refused(sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        await first
        return [([1, None, None, None],)]

    async def assigned(sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        await second
        return [([2, 7, 3, 3],)]

    both = [
        Deferred.fromCoroutine(this.enqueue(refused, Step(), {"weight": 5})),
        Deferred.fromCoroutine(this.enqueue(assigned, Step(), {"weight": 3})),
    ]
    assert street.credit.weight == 2
    first.callback(None)
    assert street.credit.weight == 7
    second.callback(None)
    assert [await each for each in both] == [1, 2]
    this.rolled_back()
    assert street.credit.weight == 10


class _Quiet(Connection):
    """A connection whose answers are a street's."""

    def __init__(self, street: Street) -> None:
        self._street = street

    @property
    def is_idle(self) -> bool:
        """Never: it is inside a transaction."""
        return False

    async def query(
        self, sql: str, parameters: Sequence[object] = (), translate: Any = None
    ) -> list[tuple[Any, ...]]:
        """Ask the street."""
        if "enqueue_checked" in sql:
            return [([1, 2],)]
        return await self._street.query(sql, parameters)

    query_often = query


async def test_a_transaction_takes_it(street: Street) -> None:
    """One job at a time; jobs of enqueue_many are claimed, and the node is woken."""
    this = dispatch(street)
    txn = Transaction(_Quiet(street), "txqueue", this)
    await txn.enqueue(Step())
    await txn.execute("rollback to a")
    await txn.enqueue_many([Step(), Step()])
    this.committed()
    assert ([job.chunk for job in street.delivered], street.wakes) == ([""], 1)
