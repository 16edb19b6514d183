"""The steps of a run, over a real connection: what a handler calls, and what is then stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, evolve
from cryptography.fernet import Fernet
from twisted.internet.defer import Deferred, DeferredList, gatherResults

from tests.db.masters import Master
from tests.db.tagged_work import Tagged
from tests.waiting import running_reactor
from txqueue import Retry, RunningJob, WorkItem
from txqueue.errors import (
    DatabaseUnavailable,
    InvalidWork,
    JobFailed,
    Refused,
    Suspended,
    TokenLost,
)
from txqueue.model.assignment import Assignment
from txqueue.model.results import Memo
from txqueue.policy.endings.outcome import judge
from txqueue.policy.findings.explanation import explain
from txqueue.store.enqueueing.encryption import encrypted
from txqueue.worker.handlers.job_transaction import (
    MOST_COMPLETING,
    MOST_CONNECTIONS,
    OwnTransactions,
)
from txqueue.worker.handlers.running_job import HeldAssignment, begun, change
from txqueue.worker.handlers.steps import JobSteps


@define
class Secret(WorkItem):
    """Work whose result is encrypted."""

    work_type = "test.secret"
    encrypted = True

    async def perform(self, job: RunningJob) -> str:
        """Return a secret."""
        return "card 7"


@define
class Place:
    """What a step returns."""

    x: int


@pytest.fixture
def job(node: Master, dsn: str) -> Iterator[RunningJob]:
    """A job that a worker has begun."""
    transactions = OwnTransactions(running_reactor(), dsn, "txqueue", "test")
    node.enqueue({})
    yield next_run(node, transactions)
    transactions.close()


def next_run(node: Master, transactions: OwnTransactions) -> RunningJob:
    """Claim a job, and return its next run."""
    (chunk,) = node.claim()
    told = Assignment(node.incarnation, chunk.assignment, chunk.lane, 1, 1, "")
    return begun(chunk.jobs[0], HeldAssignment(told, transactions.steps), transactions.open)


async def test_a_name_is_used_once(node: Master, job: RunningJob) -> None:
    """A second step of the name is an error that names it."""
    await job.step("a", int)
    with pytest.raises(InvalidWork, match="uses the name 'a' for two steps"):
        await job.sleep("a", 1)


async def test_the_number_of_steps_is_bounded(node: Master, job: RunningJob) -> None:
    """The error of the first one too many says how to do without."""
    for number in range(10_000):
        await job.sleep(f"nap {number}", 0)
    with pytest.raises(InvalidWork, match="has 10,000 steps, and 'nap' is one too many"):
        await job.sleep("nap", 0)


async def begin_statement(job: RunningJob, what: str) -> None:
    """Begin a step whose first statement needs a connection."""
    if what == "call":
        await job.call("other", Tagged())
    else:
        await job.step_transaction("book").__aenter__()


@pytest.mark.parametrize("what", ["step_transaction", "call"])
async def test_a_step_without_a_connection_spends_no_attempt(
    node: Master, tmp_path: Path, what: str
) -> None:
    """The run ends by the error that is noted as one that spends none."""
    transactions = OwnTransactions(running_reactor(), f"host={tmp_path}", "txqueue", "test")
    node.enqueue({})
    job = next_run(node, transactions)
    try:
        with pytest.raises(DatabaseUnavailable) as caught:
            await begin_statement(job, what)
        assert job.unavailable is caught.value
    finally:
        transactions.close()


@pytest.mark.parametrize("what", ["step_transaction", "call"])
async def test_a_run_that_ends_while_a_step_waits_for_a_connection_spends_no_attempt(
    node: Master, job: RunningJob, what: str
) -> None:
    """Steps of other jobs have all connections, so a timeout is none of the handler's."""
    held = [
        job.step_transaction(f"step {number}")
        for number in range(MOST_CONNECTIONS + MOST_COMPLETING)
    ]
    for each in held:
        await each.__aenter__()
    assert not job.waits_for_connection
    begun = Deferred.fromCoroutine(begin_statement(job, what))
    begun.addErrback(lambda failure: failure.trap(Suspended))
    assert job.waits_for_connection
    for each in held:
        await each.__aexit__(None, None, None)
    await begun
    assert not job.waits_for_connection


async def test_a_result_is_read_as_later_runs_read_it(node: Master, job: RunningJob) -> None:
    """The first run, too, gets what the annotation says."""

    def place() -> tuple[Place, ...]:
        return (Place(1),)

    assert await job.step("place", place) == (Place(1),)


async def test_a_new_result_that_does_not_fit_is_kept(node: Master, job: RunningJob) -> None:
    """Its function has had its effects: once the annotation is repaired, it is read."""
    calls = []

    def place() -> Place:
        calls.append(1)
        return 7  # type: ignore[return-value]  # what an application gets wrong

    with pytest.raises(InvalidWork, match="it is kept: repair the annotation"):
        await job.step("place", place)
    assert job.assignment.steps is not None
    again = JobSteps(job, job.assignment.steps, is_first=False)
    assert await again.step("place", place, (), {}, int) == 7
    assert len(calls) == 1


async def test_a_signal_is_read_as_its_wait_says(node: Master, job: RunningJob) -> None:
    """A value that does not fit is an error that names the step."""
    for name, value in (("place", '{"x": 1}'), ("answer", '"maybe"')):
        node.value("select txqueue.signal(%s, %s, %s)", job.id, name, value)
    assert await job.wait_for("place", Place) == Place(1)
    with pytest.raises(InvalidWork, match="step 'answer' does not fit its annotation, bool"):
        await job.wait_for("answer", bool)


async def test_an_annotation_that_no_json_fits_is_refused_first(
    node: Master, job: RunningJob
) -> None:
    """The function, which has effects, is not called."""
    calls = []

    def place() -> complex:
        calls.append(1)
        return 1j

    with pytest.raises(InvalidWork, match="annotated to return complex"):
        await job.step("place", place)
    assert calls == []


async def test_a_step_that_fails_is_tried_again_in_place(node: Master, job: RunningJob) -> None:
    """As often as its policy says; then its error is the job's, and nothing is kept."""
    tries: list[int] = []

    def fails() -> None:
        tries.append(1)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await job.step("fails", fails, retry=Retry(3, first=0.0))
    assert len(tries) == 3
    assert node.value("select count(*) from txqueue.job_step") == 0


async def test_steps_that_end_together_are_written_together(node: Master, job: RunningJob) -> None:
    """Those of one turn of the reactor are committed at once."""
    await gatherResults([Deferred.fromCoroutine(job.step(f"step {n}", int)) for n in range(9)])
    assert node.value("select count(distinct xmin::text) from txqueue.job_step") == 1
    assert node.value("select count(*) from txqueue.job_step") == 9


@pytest.mark.parametrize("cancelled", [0, 1, 399])
async def test_a_cancelled_step_takes_no_other_along(
    node: Master, job: RunningJob, cancelled: int
) -> None:
    """Steps that wait for those of earlier runs, which are read once for all, go on."""
    assert job.assignment.steps is not None
    steps = JobSteps(job, job.assignment.steps, is_first=False)
    begun = [Deferred.fromCoroutine(steps.begin(f"step {n}", "step")) for n in range(400)]
    begun[cancelled].cancel()
    ends = await DeferredList(begun, consumeErrors=True)
    assert [n for n, (is_begun, _) in enumerate(ends) if not is_begun] == [cancelled]


async def lose(job: RunningJob) -> None:
    """Write a row in a step that fails."""
    async with job.step_transaction("lost") as step:
        await step.txn.execute("insert into app values (1)")
        raise ValueError("lost")


async def test_a_transaction_is_a_step(node: Master, job: RunningJob) -> None:
    """What it writes and its result are there together, or not at all."""
    node.cursor.execute("create table app (number int)")
    with pytest.raises(ValueError, match="lost"):
        await lose(job)
    async with job.step_transaction("kept") as step:
        await step.txn.execute("insert into app values (2)")
        step.result = 2
    assert node.column("select number from app") == [2]
    assert node.column("select name from txqueue.job_step") == ["kept"]
    with pytest.raises(InvalidWork, match="has no transaction"):
        _ = step.txn


async def booked(job: RunningJob, result: str) -> None:
    """Write a row in a step, and let it return something."""
    async with job.step_transaction("txn") as step:
        await step.txn.execute("insert into app values (1)")
        step.result = result


async def test_a_result_that_is_too_long_is_not_kept(node: Master, dsn: str) -> None:
    """The error names the step and the remedy, and the writes of a transaction are gone."""
    node.cursor.execute("create table if not exists app (number integer); truncate app")
    transactions = OwnTransactions(running_reactor(), dsn, "txqueue", "test", longest_result=10)
    node.enqueue({})
    try:
        job = next_run(node, transactions)
        with pytest.raises(InvalidWork, match=r"step 'long' has 12 bytes.*--result-limit"):
            await job.step("long", "x".__mul__, 10)
        with pytest.raises(InvalidWork, match="step 'txn' has 12 bytes"):
            await booked(job, "x" * 10)
        await job.step("short", "x".__mul__, 8)
    finally:
        transactions.close()
    assert node.column("select name from txqueue.job_step") == ["short"]
    assert node.column("select number from app") == []


async def test_the_results_of_all_steps_have_a_limit_together(node: Master, dsn: str) -> None:
    """Those of earlier runs count; the error names the step that passes it, and the remedy."""
    transactions = OwnTransactions(running_reactor(), dsn, "txqueue", "test", steps_limit=20)
    node.enqueue({})
    try:
        job = next_run(node, transactions)
        await job.step("a", "x".__mul__, 8)
        with pytest.raises(InvalidWork, match=r"step 'b' makes .* 22 bytes .*--steps-limit"):
            await job.step("b", "x".__mul__, 10)
        with pytest.raises(InvalidWork, match=r"step 'txn' makes .* 22 bytes"):
            async with job.step_transaction("txn") as step:
                step.result = "x" * 10
        await job.step("c", "x".__mul__, 6)
        outcome = {"job_id": job.id, "assignment": job.token.assignment, "outcome": "retry"}
        node.value("select txqueue.settle(%s, %s)", node.incarnation, json.dumps([outcome]))
        job = next_run(node, transactions)
        assert await job.step("a", str) == "x" * 8
        with pytest.raises(InvalidWork, match=r"step 'd' makes .* 21 bytes"):
            await job.step("d", int, 123)
    finally:
        transactions.close()
    assert node.column("select name from txqueue.job_step order by 1") == ["a", "c"]


async def test_a_run_that_has_lost_its_job(node: Master, job: RunningJob) -> None:
    """Neither its step nor its transaction is kept."""
    node.cursor.execute("create table app (number int)")
    node.value("select txqueue.release(%s, %s, false)", node.incarnation, [job.token.assignment])
    with pytest.raises(TokenLost, match="assigned elsewhere"):
        await job.step("a", int)
    with pytest.raises(TokenLost):
        async with job.step_transaction("b") as step:
            await step.txn.execute("insert into app values (1)")
    assert node.column("select number from app") == []
    assert node.column("select name from txqueue.job_step") == []


async def test_after_a_wait_no_step_begins(node: Master, job: RunningJob) -> None:
    """A handler that swallows the suspension does nothing more; other waits are added."""
    for name in ("a", "b"):
        with pytest.raises(Suspended):
            await job.wait_for(name)
    with pytest.raises(Suspended):
        await job.step("c", int)
    assert [wait["name"] for wait in job.waits] == ["a", "b"]


async def test_a_completed_job_has_no_more_steps(node: Master, job: RunningJob) -> None:
    """The error says that the step comes too late."""
    change(job, is_completed=True)
    with pytest.raises(InvalidWork, match="comes too late"):
        await job.step("a", int)


async def test_steps_of_an_encrypted_type(
    node: Master, job: RunningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their results are stored encrypted, and read by the next run."""
    monkeypatch.setenv("TXQUEUE_PAYLOAD_KEY", Fernet.generate_key().decode())
    monkeypatch.setattr(Tagged, "encrypted", True)
    assert await job.step("secret", lambda: "card 7") == "card 7"
    stored = node.value("select result from txqueue.job_step")
    assert list(stored) == ["encrypted"]
    assert job.assignment.steps is not None
    (memo,) = await job.assignment.steps.load(job.id)
    assert "card" not in str(memo.result)


@pytest.mark.parametrize("is_parent_encrypted", [False, True])
async def test_the_result_of_an_encrypted_child(
    job: RunningJob, monkeypatch: pytest.MonkeyPatch, *, is_parent_encrypted: bool
) -> None:
    """The step of the parent keeps it encrypted, and this run and later ones read it."""
    monkeypatch.setenv("TXQUEUE_PAYLOAD_KEY", Fernet.generate_key().decode())
    monkeypatch.setattr(Tagged, "encrypted", is_parent_encrypted)
    result = json.dumps(encrypted(Secret.work_type, "result", "card 7"))
    store = job.assignment.steps
    assert store is not None
    memo = Memo("pay", "call", child=9, child_state="done", child_type=Secret.work_type)
    ended = evolve(memo, child_result=result, is_ended=False)
    first = JobSteps(job, store, is_first=False)
    first._memos = {"pay": ended}
    assert await first.call("pay", Secret(), {}) == "card 7"
    (kept,) = await store.load(job.id)
    assert "card" not in str(kept.result)
    assert "encrypted" in str(kept.result)
    later = JobSteps(job, store, is_first=False)
    assert await later.call("pay", Secret(), {}) == "card 7"


async def test_a_call_that_has_failed_names_the_remedy(node: Master, job: RunningJob) -> None:
    """The step keeps the failure, so the error says how to repeat the call, in later runs too."""
    store = job.assignment.steps
    assert store is not None
    steps = JobSteps(job, store, is_first=False)
    failed = Memo("pay", "call", child=9, child_state="failed", child_error="no", is_ended=False)
    steps._memos = {"pay": failed}
    for run in (steps, JobSteps(job, store, is_first=False)):
        with pytest.raises(JobFailed, match=f"txqueue retry {job.id} --from pay"):
            await run.call("pay", Secret(), {})


async def test_what_explain_says_of_a_call_that_has_failed(node: Master, job: RunningJob) -> None:
    """It finds the remedy in the error as the worker stores it, also for a name with a blank."""
    store = job.assignment.steps
    assert store is not None
    steps = JobSteps(job, store, is_first=False)
    failed = Memo("pay it", "call", child=9, child_state="failed", child_error="no", is_ended=False)
    steps._memos = {"pay it": failed}
    with pytest.raises(JobFailed) as caught:
        await steps.call("pay it", Secret(), {})
    verdict = judge(caught.value, Retry(5), 0, 0.5)
    assert verdict.outcome == "failed"
    told = {"job_id": job.id, "assignment": job.token.assignment, "outcome": "failed"}
    node.value(
        "select settled from txqueue.settle(%s, %s)",
        *(node.incarnation, json.dumps([{**told, "error": verdict.error}])),
    )
    blocker = explain(node.value("select txqueue.explain_facts(%s)", job.id))
    assert blocker.remedy == f"fix the cause, then: txqueue retry {job.id} --from 'pay it'"


@pytest.mark.parametrize("mode", ["keep", "again", "after"])
async def test_a_job_that_calls_itself(node: Master, job: RunningJob, mode: str) -> None:
    """By its own unique key, or work that waits for it: refused, as neither would ever end."""
    node.cursor.execute(
        "insert into txqueue.unique_job (work_type, key, job_id) values (%s, 'k', %s)",
        (Tagged.work_type, job.id),
    )
    how = {"after": [job.id]} if mode == "after" else {"unique": "k", "unique_mode": mode}
    with pytest.raises(Refused, match=f"job {job.id} would wait for its own end by the call"):
        await job.call("again", Tagged(), **how)
    assert node.states() == {"assigned": 1}
    assert node.column("select name from txqueue.job_step") == []


async def test_a_cursor_over_keys(node: Master, job: RunningJob) -> None:
    """The position is what the handler sets, and the loop ends by None."""
    following = {"": "b", "b": "f", "f": None}
    seen = []
    async for key in (cursor := job.cursor("keys", start="")):
        seen.append(key)
        cursor.following = following[key]
    assert seen == ["", "b", "f"]
    assert node.column("select result from txqueue.job_step") == [None]


async def test_the_signals_of_an_encrypted_type(
    node: Master, job: RunningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are stored encrypted, taken so, and read by this run and by later ones."""
    monkeypatch.setenv("TXQUEUE_PAYLOAD_KEY", Fernet.generate_key().decode())
    monkeypatch.setattr(Tagged, "encrypted", True)
    send = "select txqueue.signal(%s, %s, %s)"
    sealed = json.dumps(encrypted(job.work_type, "signal", {"card": 7}))
    node.value(send, job.id, "go", sealed)
    # One that was sent in clear, before the type was encrypted.
    node.value(send, job.id, "old", '["encrypted"]')
    assert await job.wait_for("go") == {"card": 7}
    assert await job.wait_for("old") == ["encrypted"]
    assert node.column("select result from txqueue.job_step")[0] == json.loads(sealed)
    assert job.assignment.steps is not None
    memo, _ = await job.assignment.steps.load(job.id)
    later = JobSteps(job, job.assignment.steps, is_first=False)
    assert await later.wait_for("go", None, None) == {"card": 7}
    assert "card" not in str(memo.result)


async def test_a_payload_is_no_signal(
    node: Master, job: RunningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was encrypted as another part is refused, as it was put there from elsewhere."""
    monkeypatch.setenv("TXQUEUE_PAYLOAD_KEY", Fernet.generate_key().decode())
    monkeypatch.setattr(Tagged, "encrypted", True)
    other = json.dumps(encrypted(job.work_type, "payload", {"approved": True}))
    node.value("select txqueue.signal(%s, 'go', %s)", job.id, other)
    with pytest.raises(InvalidWork, match="was encrypted as the payload of"):
        await job.wait_for("go")
