"""Types whose payloads are encrypted or out of sight: what is stored, and what is shown of it."""

import json
from typing import Any

import pytest
from attrs import define
from cryptography.fernet import Fernet

from tests.db.letters import opened
from tests.db.masters import Master
from txqueue import WorkItem, WorkQueue
from txqueue.errors import KeyUnavailable
from txqueue.node.settings import policy_row
from txqueue.policy.findings.explanation import explain
from txqueue.store.enqueueing.encryption import KEY, encrypted
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.job_details import about_job
from txqueue.store.reads.queue_state import about_blocked

CANARY = "s3cr3t-4111111111111111"


@define
class Secret(WorkItem):
    """Work whose payload cannot be read in the database."""

    work_type = "encrypted.secret"
    encrypted = True

    number: str

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Shy(WorkItem):
    """Work that operators do not see."""

    work_type = "encrypted.shy"
    redacted = True

    number: str

    def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, node: Master) -> None:
    """A key in the environment, and a node that has published the types."""
    monkeypatch.setenv(KEY, Fernet.generate_key().decode())
    rows = [policy_row(cls) for cls in (Secret, Shy)]
    node.value("select txqueue.publish(%s)", json.dumps(rows))


def stored(node: Master) -> str:
    """All that the database holds of all jobs, as text."""
    return str(node.value("select string_agg(job::text, E'\\n') from txqueue.job"))


@pytest.mark.usefixtures("key")
async def test_no_way_of_enqueuing_stores_it_in_clear(node: Master, dsn: str) -> None:
    """One at a time, in bulk, in a transaction, with options."""
    async with opened(dsn) as queue:
        await queue.enqueue(Secret(CANARY))
        await queue.enqueue_many([Secret(CANARY)] * 3)
        async with queue.transaction() as txn:
            await txn.enqueue(Secret(CANARY), priority=9, timeout=3)
    assert node.states() == {"ready": 5}
    assert CANARY not in stored(node)
    (chunk,) = node.take(work_types=[Secret.work_type]).chunks
    assert CANARY not in str(chunk)


async def test_without_a_key_nothing_is_written(
    node: Master, queue: WorkQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction can continue."""
    monkeypatch.delenv(KEY, raising=False)
    async with queue.transaction() as txn:
        with pytest.raises(KeyUnavailable):
            await txn.enqueue(Secret(CANARY))
        await txn.enqueue(Shy("1"))
    assert node.states() == {"waiting": 1}


IN_CLEAR = [
    {"number": CANARY},
    {},
    {"encrypted": "x", "number": CANARY},
]


@pytest.mark.parametrize("payload", IN_CLEAR, ids=["clear", "empty", "both"])
@pytest.mark.usefixtures("key")
def test_the_database_refuses_it_in_clear(node: Master, payload: dict[str, Any]) -> None:
    """From any client, by any function, without showing it; once a node has published the type."""
    text, name = json.dumps(payload), Secret.work_type
    assigned = "select txqueue.enqueue_assigned(%s, %s, %s, %s)"
    node.cursor.execute("update txqueue.node_info set work_types = %s", ([name],))
    for call in (
        lambda: node.value("select txqueue.enqueue(%s, %s)", name, text),
        lambda: node.enqueue({"work_type": name, "payload": payload}),
        lambda: node.value(assigned, node.node_id, node.incarnation, name, text),
    ):
        with pytest.raises(Exception, match=r"encrypted, and this one is in clear") as caught:
            call()
        assert CANARY not in str(caught.value)
    assert node.states() == {}


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("is_published", [True, False])
@pytest.mark.parametrize("cls", [Secret, Shy])
async def test_operators_do_not_see_it(
    node: Master, queue: WorkQueue, dsn: str, cls: type[Any], is_published: bool
) -> None:
    """Neither payload nor result nor progress note, even before a node has published the type."""
    if not is_published:
        node.cursor.execute("truncate txqueue.work_type")
    job_id = await queue.enqueue(cls(CANARY))
    assert CANARY not in repr(await queue.job(job_id))
    result = encrypted(cls.work_type, "result", CANARY) if cls.encrypted else CANARY
    node.cursor.execute(
        "update txqueue.job set result = %s, progress = %s",
        (json.dumps(result), json.dumps([1, 2, CANARY])),
    )
    with Session(dsn) as session:
        seen = session.find(about_job("txqueue", job_id))
    said = "encrypted" if cls.encrypted and is_published else "redacted"
    assert (seen["payload"], seen["result"], seen["progress"]) == (said, said, [1, 2, said])
    assert CANARY not in str(seen)
    assert CANARY not in json.dumps(node.value("select txqueue.explain_facts(%s)", job_id))


@pytest.mark.usefixtures("key")
async def test_all_waiting_callers_get_the_result(node: Master, dsn: str) -> None:
    """Decrypted, where the type and the key are known."""
    async with opened(dsn) as queue:
        job_id = await queue.enqueue(Secret(CANARY))
        (chunk,) = node.take(work_types=[Secret.work_type]).chunks
        node.settle(chunk, "done", result=encrypted(Secret.work_type, "result", {"paid": CANARY}))
        assert CANARY not in stored(node)
        assert await queue.wait(job_id, 20) == {"paid": CANARY}


LOST = "no key of this process decrypts the payload of test.kind; set it"


def lacks_key(node: Master) -> None:
    """Have a node try a job without having the key of its payload."""
    node.settle(
        node.claim()[0], "snooze", delay=60, error=LOST, error_class="txqueue.errors.KeyUnavailable"
    )


def blocked(dsn: str) -> list[tuple[str, str, int]]:
    """What `txqueue status` and doctor count."""
    with Session(dsn) as session:
        rows = session.find(about_blocked("txqueue")).reasons
    return [(each["reason"], each["gravity"], each["jobs"]) for each in rows]


def test_a_key_that_is_lost_is_no_matter_of_time(node: Master, dsn: str) -> None:
    """Explain, status and doctor say that a key is missing, also after a retry, while it is."""
    (job_id,) = node.enqueue({})
    node.enqueue({"not_before": "2100-01-01T00:00:00Z"})
    lacks_key(node)
    for _ in range(2):
        told = explain(node.value("select txqueue.explain_facts(%s)", job_id))
        assert (told.reason, told.detail) == (
            "no_key",
            "no live node has a key that it needs (tried by node):"
            " no key of this process decrypts the payload of test.kind",
        )
        assert f"txqueue cancel {job_id}" in told.remedy
        assert sorted(blocked(dsn)) == [("no_key", "fault", 1), ("time", "course", 1)]
        node.value("select retried from txqueue.retry(%s, 'me')", [job_id])
    lacks_key(node)
    assert node.job(job_id)["options"] == {"no_key": [node.incarnation]}
    node.value("select retried from txqueue.retry(%s, 'me')", [job_id])
    node.settle(node.claim()[0], "snooze", delay=60)
    assert node.job(job_id)["options"] is None
    assert explain(node.value("select txqueue.explain_facts(%s)", job_id)).reason == "time"


def test_another_node_may_have_the_key(node: Master, other: Master) -> None:
    """Nothing needs an act then, unless that one has tried, too."""
    (job_id,) = node.enqueue({})
    lacks_key(node)
    told = explain(node.value("select txqueue.explain_facts(%s)", job_id))
    assert told.reason == "no_key"
    assert "node had no key that it needs: no key of this process" in told.detail
    assert told.detail.endswith("; another node (other) may")
    assert told.remedy.startswith("restart node with that key, too")
    node.value("select retried from txqueue.retry(%s, 'me')", [job_id])
    lacks_key(other)
    told = explain(node.value("select txqueue.explain_facts(%s)", job_id))
    assert "no live node has a key that it needs (tried by node, other)" in told.detail
