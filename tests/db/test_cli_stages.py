"""``txqueue batch`` and ``txqueue repeat``, and the options of ``txqueue enqueue`` about others."""

import json
from typing import Any

import pytest

from tests.db.conftest import Cli
from tests.db.stored import Stored, stored


@pytest.fixture
def node(emptied_database18: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A node's session, on the database that the environment names."""
    monkeypatch.setenv("TXQUEUE_DSN", emptied_database18)
    monkeypatch.delenv("TXQUEUE_SCHEMA", raising=False)
    with stored(emptied_database18) as session:
        yield session


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
