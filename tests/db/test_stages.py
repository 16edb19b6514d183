"""Jobs that continue under their number, coalesce others, or are repeated."""

import json
from collections.abc import Iterator

import psycopg2
import pytest

from tests.db.conftest import Cli
from tests.db.masters import Master, master
from tests.db.stored import Taken
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.job_details import about_job
from txqueue.web.pages.job_details import timeline


def go_on(session: Master, chunk: Taken, **stage: object) -> list[int]:
    """Settle the jobs of a chunk with a next stage."""
    whole = {"work_type": "test.kind", "payload": {"stage": 2}, **stage}
    return session.settle(chunk, "next", stage=whole)


def coalesce(session: Master, chunk: Taken, at_most: int = 100) -> dict[int, object]:
    """Coalesce jobs into the one job of a chunk; return their payloads by number."""
    session.cursor.execute(
        "select * from txqueue.coalesce_into(%s, %s, %s, %s)",
        (session.incarnation, chunk.assignment, chunk.ids[0], at_most),
    )
    return {job_id: json.loads(text) for job_id, _, text in session.cursor.fetchall()}


@pytest.fixture
def txn(dsn: str, node: Master) -> Iterator[Master]:
    """A session in a transaction, as a handler has one, for the jobs of `node`."""
    with master(dsn, "handler") as session:
        session.node_id, session.incarnation = node.node_id, node.incarnation
        session.connection.autocommit = False
        yield session


def test_a_next_stage_keeps_the_job_number(node: Master) -> None:
    """With another payload and policy, and with all its attempts."""
    node.publish("next.kind", priority=7)
    (first,) = node.enqueue({"group": "g"})
    (chunk,) = node.claim()
    node.settle(chunk, "retry", delay=0)
    (chunk,) = node.claim()
    assert go_on(node, chunk, work_type="next.kind", options={"timeout": 5}) == [first]
    job = node.job(first)
    assert (job["state"], job["work_type"], job["priority"]) == ("ready", "next.kind", 7)
    assert (job["payload"], job["attempt"], job["error"]) == ({"stage": 2}, 0, None)
    stages = job["options"].pop("stages")
    assert (job["group"], job["options"]) == (None, {"timeout": 5})
    assert [(each["stage"], each["work_type"], each["runs"]) for each in stages] == [
        (1, "test.kind", 2)
    ]
    assert (job["node_id"], job["assignment"]) == (None, None)
    (chunk,) = node.take(work_types=["next.kind"]).chunks
    assert chunk.ids == [first]
    assert node.complete(chunk) == 1


def test_each_ended_stage_is_shown_with_its_runs(node: Master, dsn: str) -> None:
    """Its failures are those of its type; the command, the page and programs show the same."""
    node.publish("next.kind")
    node.publish("last.kind")
    (first,) = node.enqueue({})
    for kind, taken in (("next.kind", "test.kind"), ("last.kind", "next.kind")):
        (chunk,) = node.take(work_types=[taken]).chunks
        node.settle(chunk, "retry", delay=0, error=f"ValueError: of {taken}")
        (chunk,) = node.take(work_types=[taken]).chunks
        assert go_on(node, chunk, work_type=kind) == [first]
    (chunk,) = node.take(work_types=["last.kind"]).chunks
    node.settle(chunk, "failed", error="ValueError: of last.kind")
    with Session(dsn, "txqueue") as session:
        job = session.find(about_job("txqueue", first))
    shown = [
        (each["stage"], each["work_type"], each["runs"], each["node"]) for each in job["stages"]
    ]
    assert shown == [(1, "test.kind", 2, "node"), (2, "next.kind", 2, "node")]
    assert [(each["stage"], each["error"].split()[-1]) for each in job["attempts"]] == [
        (1, "test.kind"),
        (2, "next.kind"),
        (3, "last.kind"),
    ]
    assert all(each["work_type"] == each["error"].split()[-1] for each in job["attempts"])
    names = [mark["name"] for mark in timeline(job)]
    assert [name for name in names if "stage" in name or "attempt" in name] == [
        "attempt 1 of test.kind failed",
        "stage test.kind done",
        "attempt 1 of next.kind failed",
        "stage next.kind done",
        "attempt 1 of last.kind failed for good",
    ]


def test_the_command_shows_the_stages(node: Master, dsn: str, cli: Cli) -> None:
    """Before the failed attempts, each of which names its stage."""
    node.publish("next.kind")
    (first,) = node.enqueue({})
    (chunk,) = node.claim()
    node.settle(chunk, "retry", delay=0, error="ValueError: once")
    (chunk,) = node.claim()
    assert go_on(node, chunk, work_type="next.kind") == [first]
    said = cli("--dsn", dsn, "job", str(first)).out
    _, _, stages = said.partition("Earlier stages")
    ended, _, failed = stages.partition("Failed attempts")
    assert "test.kind" in ended
    assert "test.kind" in failed
    assert '"stages"' not in said


def test_the_latest_twenty_stages_are_kept(node: Master) -> None:
    """However long a job goes on."""
    (first,) = node.enqueue({})
    for _ in range(23):
        (chunk,) = node.claim()
        assert go_on(node, chunk) == [first]
    kept = [each["stage"] for each in node.job(first)["options"]["stages"]]
    assert kept == list(range(4, 24))


def test_its_group_continues_without_it(node: Master) -> None:
    """The next of its group runs, and it itself comes behind those of its new group."""
    first, second = node.enqueue({"group": "g"}, {"group": "g"})
    (chunk,) = node.claim()
    assert go_on(node, chunk, group="h") == [first]
    assert sorted(node.claimed_ids()) == [first, second]


def test_a_stage_with_a_moment_waits_for_it(node: Master) -> None:
    """A stage of an unpublished type waits for a node that has it."""
    first, second = node.enqueue({}, {})
    (chunk,) = node.claim()
    outcome = {"assignment": chunk.assignment, "outcome": "next"}
    later = {"work_type": "test.kind", "payload": {}, "not_before": "2999-01-01"}
    unknown = {"work_type": "new.kind", "payload": {}}
    outcomes = [
        {**outcome, "job_id": first, "stage": later},
        {**outcome, "job_id": second, "stage": unknown},
    ]
    node.value("select settled from txqueue.settle(%s, %s)", node.incarnation, json.dumps(outcomes))
    assert (node.waiting("time"), node.waiting("type")) == ([first], [second])


@pytest.mark.parametrize("stage", [{"payload": 7}, {"priority": 70}, {"work_type": None}])
def test_a_stage_that_is_refused_fails_the_job_alone(
    node: Master, stage: dict[str, object]
) -> None:
    """What is settled with it is settled, and what waits for it is cancelled."""
    first, second = node.enqueue({}, {})
    child = node.value("select txqueue.enqueue('test.kind', '{}', after => %s)", [first])
    node.value("select owned from txqueue.heartbeat(%s, 0)", node.incarnation)
    (chunk,) = node.claim()
    whole = {"work_type": "test.kind", "payload": {}, **stage}
    outcomes = [
        {"job_id": first, "assignment": chunk.assignment, "outcome": "next", "stage": whole},
        {"job_id": second, "assignment": chunk.assignment, "outcome": "done"},
    ]
    node.value("select settled from txqueue.settle(%s, %s)", node.incarnation, json.dumps(outcomes))
    assert node.job(first)["error"].startswith("its next stage was refused: ")
    assert node.states() == {"failed": 1, "done": 1, "cancelled": 1}
    assert node.job(child)["error"] == f"cancelled: parent {first} failed"


def test_what_waits_for_it_waits_for_its_last_stage(node: Master) -> None:
    """A child is no follower of a stage."""
    (first,) = node.enqueue({})
    (chunk,) = node.claim()
    child = node.value("select txqueue.enqueue('test.kind', '{}', after => %s)", [first])
    go_on(node, chunk)
    (chunk,) = node.claim()
    assert (chunk.ids, node.waiting("parents")) == ([first], [child])
    node.complete(chunk)
    assert node.claimed_ids() == [child]


def test_a_job_takes_those_of_its_group_along(node: Master, txn: Master) -> None:
    """They end with it, or not at all if it does not."""
    ids = node.enqueue(*({"group": "g", "payload": {"n": n}} for n in range(4)), {"group": "h"})
    (chunk,) = node.claim(1)
    assert chunk.ids == ids[:1]
    assert coalesce(txn, chunk, 2) == {ids[1]: {"n": 1}, ids[2]: {"n": 2}}
    txn.connection.rollback()
    assert coalesce(txn, chunk) == {job_id: {"n": n} for n, job_id in enumerate(ids[:4]) if n}
    assert txn.settle(chunk, "done") == ids[:1]
    txn.connection.commit()
    assert node.states() == {"done": 4, "ready": 1}
    assert node.job(ids[3])["error"] == f"coalesced into job {ids[0]}"


def test_a_job_without_a_group_takes_those_like_it_along(node: Master, txn: Master) -> None:
    """Of its type, queue and tenant; not those of a group, nor those with followers."""
    (first,) = node.enqueue({})
    (chunk,) = node.claim()
    like, *_ = node.enqueue(
        {}, {"group": "g"}, {"tenant": "t"}, {"queue": "other"}, {"unique": "k"}
    )
    assert coalesce(txn, chunk) == {like: {}}
    txn.connection.rollback()
    node.release(chunk.assignment)
    assert coalesce(txn, chunk) == {}
    assert node.job(first)["state"] == "ready"


def test_a_claim_passes_over_what_is_taken_along(node: Master, txn: Master) -> None:
    """It does not wait for the handler's transaction, nor does it run them."""
    node.enqueue({})
    (chunk,) = node.claim()
    node.enqueue({}, {})
    assert len(coalesce(txn, chunk)) == 2
    assert node.claim() == []
    assert txn.settle(chunk, "done") == chunk.ids
    txn.connection.commit()
    assert (node.claim(), node.states()) == ([], {"done": 3})


@pytest.mark.parametrize("outcome", ["done", "failed", "cancelled"])
def test_a_job_that_has_ended_is_repeated_as_a_new_one(node: Master, outcome: str) -> None:
    """With its payload and policy; the old one stays as it is."""
    options = {"queue": "default", "priority": 7, "weight": 2, "group": "g", "tenant": "t"}
    (first,) = node.enqueue({"payload": {"n": 1}, "options": {"timeout": 5}, **options})
    (chunk,) = node.claim()
    node.settle(chunk, outcome)
    again = node.value("select txqueue.repeat(%s, 'ann')", first)
    old, new = node.job(first), node.job(again)
    assert (old["state"], new["state"]) == (outcome, "ready")
    same = ("work_type", "payload", "options", *options)
    assert [new[name] for name in same] == [old[name] for name in same]
    assert node.value("select what from txqueue.action") == "repeat"


def test_a_job_that_has_not_ended_is_not_repeated(node: Master) -> None:
    """Nor is one that never was."""
    (first,) = node.enqueue({})
    for job_id, said in ((first, "has not ended"), (first + 1, "there is no job")):
        with pytest.raises(psycopg2.Error, match=said):
            node.value("select txqueue.repeat(%s, 'ann')", job_id)


def test_one_with_a_unique_key_is_repeated_under_it(node: Master) -> None:
    """Unless another holds it by now: that one does for both."""
    (first,) = node.enqueue({"unique": "k"})
    (chunk,) = node.claim()
    node.complete(chunk)
    again = node.value("select txqueue.repeat(%s, 'ann')", first)
    assert again != first
    assert node.value("select txqueue.repeat(%s, 'ann')", first) == again
