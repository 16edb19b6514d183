"""A job that makes a claim fail is failed with the reason, and the others run."""

from __future__ import annotations

import psycopg2
import pytest

from tests.db.damage import LARGE, LOST, large_json, lose_large_values
from tests.db.masters import Master
from tests.db.test_explain import explained
from tests.waiting import running_reactor
from txqueue.errors import Refused
from txqueue.model.assignment import read_chunk
from txqueue.policy.findings.reason import DAMAGE_REMEDY
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.node.functions import StoredFunctions

EURO = {"text": "5 €"}
LATIN: dict[str, str] = {"client_encoding": "LATIN1"}
REASON = (
    'it cannot be given to a worker: character with byte sequence 0xe2 0x82 0xac in encoding "UTF8"'
)


def set_aside(node: Master, *queues: str) -> list[int]:
    """Fail the jobs that the node's session cannot read; return their numbers."""
    return list(
        node.value("select txqueue.set_aside(%s, %s::text[])", node.incarnation, list(queues))
    )


def test_nothing_is_set_aside_while_all_can_be_read(node: Master) -> None:
    """Whatever made a claim fail then, it was no job."""
    node.enqueue({}, {"payload": EURO}, {"options": {"tags": {"a": "€"}}})
    assert set_aside(node, "default") == []
    assert len(node.claimed_ids()) == 3


@pytest.mark.parametrize("group", [None, "g"])
def test_the_one_job_is_failed_and_its_followers_go_on(node: Master, group: str | None) -> None:
    """Children with after_any_end run, and so do the other jobs of its group."""
    job = {"payload": EURO, "group": group}
    bad, worse, good = node.enqueue(job, {**job, "group": None}, {"group": group})
    (child,) = node.enqueue({"after": [bad], "after_any_end": True})
    node.value("select set_config('client_encoding', 'LATIN1', false)")
    with pytest.raises(psycopg2.DataError):
        node.take()
    assert set_aside(node, "other") == []
    assert sorted(set_aside(node, "default")) == [bad, worse]
    assert sorted(node.claimed_ids()) == [good, child]
    node.value("select set_config('client_encoding', 'UTF8', false)")
    row = node.job(bad)
    assert (row["state"], row["payload"], row["attempt"]) == ("failed", EURO, 0)
    assert row["error"].startswith(REASON)
    assert row["fingerprint"]


def test_an_assigned_job_is_set_aside_too(node: Master, other: Master) -> None:
    """One that another process has handed to the node; a job of another node is not touched."""
    bad, good = node.enqueue({"payload": EURO}, {})
    assert node.claimed_ids(1) == [bad]
    assert other.claimed_ids() == [good]
    node.value("select set_config('client_encoding', 'LATIN1', false)")
    assert set_aside(other) == []
    assert set_aside(node) == [bad]
    assert node.value("select state::text from txqueue.job where job_id = %s", good) == "assigned"


async def test_the_next_claim_goes_on(node: Master, dsn: str) -> None:
    """The one that failed names the job, and is repeated at once as after any error."""
    bad, good = node.enqueue({"payload": EURO}, {})
    pool = ConnectionPool(running_reactor(), dsn, 1, "test", session=LATIN)
    functions = StoredFunctions(pool)
    identity = node.node_id, node.incarnation

    async def claim() -> list[int]:
        taken, *_ = await functions.claim_ready(*identity, ["default"], ["test.kind"], 8)
        return [job.job_id for each in taken for job in read_chunk(each.chunk)]

    try:
        with pytest.raises(Refused, match=f"whose rows cannot be read have failed: {bad};"):
            await claim()
        assert await claim() == [good]
    finally:
        pool.close()


def test_a_damaged_row_stops_no_other(node: Master) -> None:
    """It is failed without its payload, which cannot be read any more."""
    bad, good = node.enqueue({"payload": {"text": LARGE}}, {})
    lose_large_values(node)
    with pytest.raises(psycopg2.InternalError):
        node.take()
    assert set_aside(node, "default") == [bad]
    assert node.claimed_ids() == [good]
    row = node.job(bad)
    assert row["state"] == "failed"
    assert "missing chunk number 0" in row["error"]
    assert row["error"].endswith("; its payload was lost")


def test_a_job_without_its_payload_is_not_run_again(node: Master) -> None:
    """A class whose fields have defaults would run with values that were never enqueued."""
    [bad] = node.enqueue({"payload": {"text": LARGE}})
    lose_large_values(node)
    assert set_aside(node, "default") == [bad]
    explanation = explained(node, bad)
    assert (explanation.reason, explanation.remedy) == ("damaged", DAMAGE_REMEDY)
    node.cursor.execute("select retried from txqueue.retry(%s::bigint[], 'ann')", ([bad],))
    assert node.cursor.fetchone() == ([],)
    with pytest.raises(psycopg2.Error, match=r"cannot be repeated: its payload cannot be read"):
        node.value("select txqueue.repeat(%s, 'ann')", bad)
    assert node.job(bad)["state"] == "failed"


@pytest.mark.parametrize("column", ["payload", "options", "error"])
def test_a_claim_sets_a_job_aside_whatever_of_it_is_lost(node: Master, column: str) -> None:
    """Also its last error, which no worker gets, as it moves with the row."""
    bad, good = node.enqueue({}, {})
    value = f"boom {LARGE}" if column == "error" else large_json()
    node.cursor.execute(f"update txqueue.job set {column} = %s where job_id = %s", (value, bad))
    lose_large_values(node)
    with pytest.raises(psycopg2.InternalError):
        node.take()
    assert node.value("select txqueue.set_aside(%s, '{default}')", node.incarnation) == [bad]
    assert node.claimed_ids() == [good]
    assert LOST in node.job(bad)["error"]
