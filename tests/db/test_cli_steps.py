"""``txqueue steps``, ``batch`` and ``repeat``, and signals by the queue and by operators."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from tests.db.conftest import Cli
from tests.db.stored import Stored, stored
from txqueue import WorkQueue
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.errors import AdminRefused, InvalidWork, Refused
from txqueue.policy.findings.explanation import explain


@pytest.fixture
def node(emptied_database18: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A node's session, on the database that the environment names."""
    monkeypatch.setenv("TXQUEUE_DSN", emptied_database18)
    monkeypatch.delenv("TXQUEUE_SCHEMA", raising=False)
    with stored(emptied_database18) as session:
        yield session


def test_steps_are_shown(node: Stored, cli: Cli) -> None:
    """Those that are done, what the job waits for, and both once it has ended."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    step = {"job_id": job_id, "assignment": chunk.assignment, "name": "charge", "kind": "step"}
    node.cursor.execute(
        "select from txqueue.write_steps(%s, %s)",
        (node.incarnation, json.dumps([{**step, "result": {"id": 7}}])),
    )
    wait = {"name": "approval", "kind": "signal", "signal": "approved"}
    node.settle(chunk, "suspended", waits=[wait])
    for state in ("waiting", "cancelled"):
        document = json.loads(cli("steps", str(job_id), "--json").out)
        assert document["state"] == state
        assert [each["name"] for each in document["steps"]] == ["charge", "approval"]
        shown = cli("steps", str(job_id)).out
        assert '{"id": 7}' in shown
        waits = "waits" if state == "waiting" else "waited"
        assert f"{waits} for the signal approved" in shown
        node.value("select cancelled from txqueue.cancel(%s, 'me')", [job_id])


def test_of_thousands_of_steps_the_latest_are_shown(node: Stored, cli: Cli) -> None:
    """And what the job waits for; JSON has all."""
    (job_id,) = node.enqueue({})
    node.cursor.execute(
        "insert into txqueue.job_step (job_id, name, kind, ended_at)"
        " select %s, 'step-' || number, 'step', case when number > 1 then now() end"
        " from generate_series(1, 3000) as number",
        (job_id,),
    )
    shown = cli("steps", str(job_id)).out
    names = [word for word in shown.split() if word.startswith("step-")]
    assert names == ["step-1", *(f"step-{number}" for number in range(2902, 3001))]
    assert "and 2,900 earlier steps; --json has all" in shown
    assert cli("steps", str(job_id), "--limit", "3").out.count("step-") == 3
    assert len(json.loads(cli("steps", str(job_id), "--json").out)["steps"]) == 3000


def test_a_sleep_that_is_over_does_not_wait(node: Stored, cli: Cli) -> None:
    """Also while the job has not gone on, and once it has ended."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    node.settle(chunk, "suspended", waits=[{"name": "rest", "kind": "sleep", "seconds": 0}])
    for _ in ("live", "ended"):
        shown = cli("steps", str(job_id)).out
        assert "is over" in shown
        assert "waits" not in shown
        node.value("select cancelled from txqueue.cancel(%s, 'me')", [job_id])


def test_the_type_of_a_called_job_is_shown(node: Stored, cli: Cli) -> None:
    """While it waits, and once both have ended."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    (child,) = node.enqueue({})
    node.settle(chunk, "suspended", waits=[{"name": "part", "kind": "call", "child": child}])
    for _ in ("live", "ended"):
        assert "call of test.kind" in cli("steps", str(job_id)).out
        node.value("select cancelled from txqueue.cancel(%s, 'me')", [child, job_id])


@pytest.mark.parametrize("reason", ["redacted", "encrypted"])
@pytest.mark.parametrize("state", ["waiting", "cancelled"])
def test_hidden_types_show_no_values(node: Stored, cli: Cli, reason: str, state: str) -> None:
    """The results of steps, the values of signals and the errors of calls are hidden."""
    (job_id,) = node.enqueue({})
    node.value("select txqueue.signal(%s, 'go', '\"secret\"')", job_id)
    write_secrets(node)
    publish(node, reason)
    if state == "cancelled":
        node.value("select cancelled from txqueue.cancel(%s, 'me')", [job_id])
    for more in ([], ["--json"]):
        shown = cli("steps", str(job_id), *more).out
        assert "secret" not in shown
        assert reason in shown
        assert bool(more) is (f'"{reason}"' in shown)
        assert "charge" in shown


@pytest.mark.parametrize("width", ["80", "250"])
def test_long_names_and_results(
    node: Stored, cli: Cli, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    """Each column stays readable, a result is cut off, and a name is whole with `-o wide`."""
    monkeypatch.setenv("COLUMNS", width)
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    step = {"job_id": job_id, "assignment": chunk.assignment, "kind": "step"}
    steps = [{**step, "name": "n" * 200, "result": "r" * 10_000}]
    node.cursor.execute(
        "select from txqueue.write_steps(%s, %s)", (node.incarnation, json.dumps(steps))
    )
    shown = cli("steps", str(job_id)).out
    assert all(len(line) <= int(width) for line in shown.splitlines())
    assert "nn…nn" in shown
    assert "ago)" in shown
    whole = cli("steps", str(job_id), "-o", "wide").out
    assert "n" * 200 in whole
    assert 150 < whole.count("r") < 250


def test_the_result_of_a_child_whose_type_is_unknown_is_hidden(node: Stored, cli: Cli) -> None:
    """The parent shows its own values, and none of a child that is gone."""
    (job_id,) = node.enqueue({})
    write_secrets(node)
    shown = {
        each["name"]: each for each in json.loads(cli("steps", str(job_id), "--json").out)["steps"]
    }
    assert shown["charge"]["result"] == "secret"
    assert shown["pay"]["error"] == "redacted"


def publish(node: Stored, reason: str) -> None:
    """Give the type of all jobs that are hidden a policy."""
    node.cursor.execute(
        "insert into txqueue.work_type (work_type, queue, priority, weight, policy)"
        " values ('test.kind', 'default', 0, 1, %s::jsonb)"
        " on conflict (work_type) do update set policy = excluded.policy",
        (json.dumps({reason: True}),),
    )


def write_secrets(node: Stored) -> None:
    """Write steps of the job that is ready, with values that only its worker may see."""
    (chunk,) = node.claim()
    step = {"job_id": chunk.ids[0], "assignment": chunk.assignment}
    steps = [
        {**step, "name": "charge", "kind": "step", "result": "secret"},
        {**step, "name": "pay", "kind": "call", "error": "secret"},
    ]
    node.cursor.execute(
        "select from txqueue.write_steps(%s, %s)", (node.incarnation, json.dumps(steps))
    )
    node.cursor.execute("update txqueue.job_step set child = 999999 where name = 'pay'")


def test_a_signal_that_a_job_does_not_await_is_warned_of(
    node: Stored, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the names of those that it awaits; `explain` has a place for the value."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    wait = {"name": "a", "kind": "signal", "signal": "approval", "annotation": "int"}
    node.settle(chunk, "suspended", waits=[wait])
    monkeypatch.setattr("txqueue.cli.steps.operate", lambda *_: True)
    for name, is_warned in (("aproval", True), ("approval", False)):
        said = " ".join(cli("signal", str(job_id), name, "true").err.split())
        assert ("It does not wait for that, but for 'approval'" in said) is is_warned
    why = explain(node.value("select txqueue.explain_facts(%s)", job_id))
    assert why.remedy == (
        f"send it, with a value in JSON (int): txqueue signal {job_id} approval VALUE"
    )


class _Acting:
    """A link to a node that has two jobs, of which one has the step."""

    async def jobs_page(self, **filters: Any) -> Any:
        """Return both."""
        assert filters["act"] == "retry"
        return SimpleNamespace(jobs=[{"job_id": 7}, {"job_id": 8}], at=None, next=None)

    async def retry_from(self, job_id: int, step: str) -> int:
        """Retry one."""
        if job_id == 8:
            raise AdminRefused(f"job 8 has no step {step}", "see: txqueue steps 8")
        return 1


@pytest.mark.parametrize("words", [["--all", "--state", "failed"], ["7", "8"]])
def test_a_retry_of_several_jobs_from_a_step(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that has the step runs again; of the others, the reason is shown."""
    monkeypatch.setattr(
        "txqueue.cli.job_actions.operate",
        lambda _, act: Deferred.fromCoroutine(act(_Acting())).result,
    )
    status = run(["retry", *words, "--from", "charge", "--json"], GlobalOptions())
    told = json.loads(capsys.readouterr().out)
    assert (told["retried"], told["refused"]) == ([7], [8])
    assert told["reasons"][0]["detail"] == "job 8 has no step charge"
    assert status == int(words == ["7", "8"])


async def roll_back(queue: WorkQueue, job_id: int) -> None:
    """Send a signal in a transaction that fails."""
    async with queue.transaction() as txn:
        assert await txn.signal(job_id, "go", 1)
        raise ValueError("rolled back")


async def test_a_signal_in_a_transaction(node: Stored, emptied_database18: str) -> None:
    """It counts if the transaction commits; a job that has ended takes none."""
    (job_id,) = node.enqueue({"unique": "order 7"})
    queue = await WorkQueue.connect(emptied_database18)
    try:
        with pytest.raises(ValueError, match="rolled back"):
            await roll_back(queue, job_id)
        assert await queue.signal(job_id, "go", {"by": "Ada"}, key="a")
        assert not await queue.signal(job_id, "go", key="a")
        assert node.column("select value from txqueue.job_signal") == [{"by": "Ada"}]
        with pytest.raises(InvalidWork):
            await queue.signal(job_id, "")
        node.value("select cancelled from txqueue.cancel(%s, 'me')", [job_id])
        with pytest.raises(Refused, match="it was cancelled"):
            await queue.signal(job_id, "go")
    finally:
        await queue.close()


def test_signals_that_no_step_has_taken_are_shown(node: Stored, cli: Cli) -> None:
    """With their values and keys; one that was taken is a step."""
    (job_id,) = node.enqueue({})
    for name, value in (("go", 1), ("other", {"by": "Zoë"})):
        node.value("select txqueue.signal(%s, %s, %s, 'k 7')", job_id, name, json.dumps(value))
    (chunk,) = node.claim()
    taken = {"kind": "signal", "name": "go", "signal": "go"}
    about = {"job_id": job_id, "assignment": chunk.assignment, **taken}
    node.value(
        "select value from txqueue.write_steps(%s, %s)", node.incarnation, json.dumps([about])
    )
    assert node.settle(chunk, "suspended", waits=[{"name": "nap", "kind": "sleep", "seconds": 60}])
    [kept] = json.loads(cli("steps", str(job_id), "--json").out)["signals"]
    assert (kept["name"], kept["key"], kept["value"]) == ("other", "k 7", {"by": "Zoë"})
    shown = cli("steps", str(job_id)).out
    assert "Signals not taken yet" in shown
    assert '{"by": "Zoë"}' in shown


def test_a_signal_by_a_key_that_no_job_holds(node: Stored, cli: Cli) -> None:
    """Says so."""
    said = " ".join(cli("signal", "--of", "test.kind", "order 7", "go", status=1).err.split())
    assert "no job of test.kind that has not ended holds the unique key order 7" in said


def test_a_signal_of_an_operator_is_recorded(node: Stored) -> None:
    """With its name, and without its value."""
    (job_id,) = node.enqueue({})
    assert node.value("select txqueue.send_signal(%s, 'go', '\"secret\"', null, 'ada')", job_id)
    ((what, who, detail),) = rows(node, "select what, who, detail from txqueue.action")
    assert (what, who) == ("signal", "ada")
    assert detail == {"jobs": [job_id], "name": "go"}


def rows(node: Stored, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    node.cursor.execute(sql)
    return node.cursor.fetchall()


def said(cli: Cli, *words: str) -> Any:
    """Run a command; returns what it said as JSON."""
    return json.loads(cli(*words, "--json").out)


def enqueued(cli: Cli, *words: str) -> int:
    """Enqueue a job of the kind of the tests; returns its number."""
    told = said(cli, "enqueue", "test.kind", "{}", *words)
    return int(told["job_ids"][0])


def test_a_batch_is_shown(node: Stored, cli: Cli) -> None:
    """While its jobs end, and when all have."""
    ids = node.enqueue({}, {}, {}, {})
    after = [word for job_id in ids for word in ("--after", str(job_id))]
    callback = enqueued(cli, *after, "--after-any-end")
    told = {"batch": callback, "work_type": "test.kind", "state": "waiting", "jobs": 4}
    ends = {"done": 0, "failed": 0, "cancelled": 0}
    assert said(cli, "batch", str(callback)) == {**told, **ends, "left": 4}
    (chunk,) = node.claim(1)
    node.settle(chunk, "failed")
    assert said(cli, "batch", str(callback)) == {**told, **ends, "failed": 1, "left": 3}
    shown = cli("batch", str(callback)).out
    assert "25 %" in shown
    assert "1 of 4" in shown
    for chunk in node.claim():
        node.complete(chunk)
    ends |= {"done": 3, "failed": 1, "left": 0}
    assert said(cli, "batch", str(callback)) == {**told, "state": "ready", **ends}


def test_an_empty_batch_and_one_whose_jobs_are_gone(node: Stored, cli: Cli) -> None:
    """The first has no jobs; of the second, the callback has the outcomes."""
    (empty,) = node.enqueue({"after": [], "after_any_end": True})
    ends = {"done": 0, "failed": 0, "cancelled": 0, "left": 0}
    told = {"batch": empty, "work_type": "test.kind", "state": "ready", "jobs": 0, **ends}
    assert said(cli, "batch", str(empty)) == told
    assert "0 of 0" in cli("batch", str(empty)).out
    (job_id,) = node.enqueue({})
    (callback,) = node.enqueue({"after": [job_id], "after_any_end": True})
    for chunk in node.claim():
        node.complete(chunk)
    node.cursor.execute("delete from txqueue.job where job_id = %s", (job_id,))
    told = said(cli, "batch", str(callback))
    assert (told["jobs"], told["done"]) == (1, 1)


def test_what_is_no_batch(node: Stored, cli: Cli) -> None:
    """A job without parents, and a job that does not exist."""
    (first,) = node.enqueue({})
    for job_id in (first, first + 1):
        assert (
            f"job {job_id} is not the callback of a batch"
            in cli("batch", str(job_id), status=1).err
        )


def test_jobs_are_repeated(node: Stored, cli: Cli) -> None:
    """All or none."""
    ids = node.enqueue({"payload": {"n": 1}}, {"payload": {"n": 2}})
    (chunk,) = node.claim()
    node.complete(chunk)
    told = said(cli, "repeat", *map(str, ids))["repeated"]
    assert [each["job_id"] for each in told] == ids
    assert [node.job(each["new_id"])["payload"] for each in told] == [{"n": 1}, {"n": 2}]
    assert "has not ended" in cli("repeat", str(ids[0]), str(told[0]["new_id"]), status=1).err
    assert node.states() == {"done": 2, "ready": 2}
    assert f"Job {ids[0]} is enqueued again" in cli("repeat", str(ids[0])).out


def test_a_copy_has_a_payload_that_its_type_can_read(node: Stored, cli: Cli) -> None:
    """By the schema that a node has published; nothing is enqueued otherwise."""
    kind = {"work_type": "test.kind", "queue": "default", "priority": 4, "weight": 1}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    node.value("select txqueue.publish(%s)", json.dumps([{**kind, "schema": schema}]))
    (job_id,) = node.enqueue({"payload": {"n": 1}})
    (chunk,) = node.claim()
    node.complete(chunk)
    words = ("repeat", str(job_id), "--payload")
    assert "does not fit test.kind: expected integer" in cli(*words, '{"n": "1"}', status=1).err
    assert node.states() == {"done": 1}
    assert f"Job {job_id} is enqueued again" in cli(*words, '{"n": 2}').out


def test_the_mode_of_a_declared_key(node: Stored, cli: Cli) -> None:
    """The key need not be named; without any, nothing is enqueued."""
    kind = {"work_type": "test.kind", "queue": "default", "priority": 4, "weight": 1}
    keys = {"unique": ["k"], "unique_mode": "keep"}
    node.value("select txqueue.publish(%s)", json.dumps([{**kind, "policy": {"keys": keys}}]))
    first = enqueued(cli)
    moment = ("--as-of", "2026-11-27T12:00:00Z", "--unique-mode", "replace")
    assert enqueued(cli, *moment) == first
    told = node.job(first)["options"]
    assert (told["unique"], "as_of" in told) == ("k", True)
    for wrong in (moment[:2], moment[2:]):
        assert (
            "pass the key as unique, or declare it on the class"
            in cli("enqueue", "other.kind", "{}", *wrong, status=1).err
        )
