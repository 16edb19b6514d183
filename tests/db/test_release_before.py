"""The release of an application before this one, beside nodes that publish stricter policies."""

import json
from types import SimpleNamespace
from typing import Any, Final

import pytest
from attrs import define, field, make_class

from tests.db.letters import opened
from tests.db.masters import Master
from tests.db.recurring import due, put, tick
from txqueue import Key, Retry, Runtime, UniqueMode, WorkItem
from txqueue.node.settings import policy_row
from txqueue.store.enqueueing.calls import job_object
from txqueue.worker.handlers.job_transaction import enqueue_follow_ups

TYPE: Final = "release.order"


@define
class Former(WorkItem):
    """The class as the release before has it."""

    work_type = TYPE
    number: int = 7
    shop: str = ""

    def perform(self, job: Any) -> None:
        """Do nothing."""


def computed(_: object) -> str:
    """A key that only the class can compute."""
    return "a key"


KEYS: Final = {
    "computed": property(computed),
    "constant": "the same",
    "of_a_new_field": Key("{customer}"),
    "of_another_kind": Key("{number}"),
    "of_a_field_that_is_empty": Key("{shop}"),
    "too_long": Key("{shop}" + "x" * 300),
}
POLICIES: Final[dict[str, dict[str, Any]]] = {
    **{f"{name} {kind}": {name: key} for name in ("group", "tenant") for kind, key in KEYS.items()},
    **{
        f"unique {kind} {mode}": {"unique": key, "unique_mode": mode}
        for kind, key in KEYS.items()
        for mode in UniqueMode
    },
    "timeout": {"timeout": 1},
    "attempts": {"retry": Retry(1)},
    "runtime": {"runtime": Runtime.THREAD},
    "group_limit": {"group_limit": 9},
    "expires": {"expires": True},
    "redacted": {"redacted": True},
    "encrypted": {"encrypted": True},
    "placement": {"queue": "other", "priority": 9, "weight": 1000},
}


def published(policy: dict[str, Any]) -> dict[str, Any]:
    """What a node of this release publishes of its class, which has another field, too."""
    fields = {"number": field(type=str), "shop": field(type=str), "customer": field(type=int)}
    body = {"__module__": __name__, "work_type": f"{TYPE}.later", **policy}
    cls = make_class("Later", fields, bases=(WorkItem,), class_body=body)
    return {**policy_row(cls), "work_type": TYPE}


@pytest.fixture(params=POLICIES)
def policy(request: pytest.FixtureRequest, node: Master) -> None:
    """A policy that a node of this release has published, beside a live node of the former one."""
    node.value(
        "select incarnation from txqueue.register_node"
        "('former', 'host', 1, null, 10, 100, '{default}', %s, '', null)",
        json.dumps([policy_row(Former)]),
    )
    put(node, "former", work_type=TYPE, payload={"number": 7})
    node.value("select txqueue.publish(%s)", json.dumps([published(POLICIES[request.param])]))


def test_each_policy_that_a_node_publishes_is_played() -> None:
    """One that is new needs a case here."""
    names = {name for policy in POLICIES.values() for name in published(policy)["policy"]}
    assert names == {
        *("timeout", "attempts", "runtime", "group_limit", "expires", "redacted", "encrypted"),
        "keys",
    }
    assert published({}).keys() == {
        *("work_type", "queue", "priority", "weight", "version", "policy", "schema")
    }


@pytest.mark.usefixtures("policy")
async def test_clients_of_the_release_before_are_refused_nothing(node: Master, dsn: str) -> None:
    """Neither those in Python, nor those in SQL, nor schedules that they have made or make."""
    job = json.dumps([{"work_type": TYPE, "payload": {"number": 7}}] * 2)
    async with opened(dsn) as queue:
        assert await queue.enqueue(Former())
        assert await queue.enqueue(Former(), timeout=5)
        assert len(await queue.enqueue_many([Former(), Former()])) == 2
        async with queue.transaction() as txn:
            assert await txn.enqueue(Former())
    for _ in range(2):
        assert node.value(f"select txqueue.enqueue('{TYPE}', '{{\"number\": 7}}')")
        assert node.value(f"select txqueue.enqueue('{TYPE}', '{{}}', options => '{{}}')")
        assert len(node.value("select txqueue.enqueue_many(%s)", job)) == 2
    tick(node, due(node))
    assert node.value("select txqueue.run_schedule('former', 'ann')")
    assert node.column("select error from txqueue.schedule") == [None]
    put(node, "later", work_type=TYPE, payload={"number": 7})


@pytest.mark.usefixtures("policy")
async def test_handlers_of_the_release_before_complete(node: Master, dsn: str) -> None:
    """Their jobs enqueue others, and go on as others."""
    job: Any = SimpleNamespace(follow_ups=[(Former(), {}), (Former(), {})])
    async with opened(dsn) as queue, queue.transaction() as txn:
        await enqueue_follow_ups(job, txn)
    first = node.enqueue({})
    [chunk] = node.claim()
    assert node.settle(chunk, "next", stage=job_object(Former())) == first
    assert node.job(first[0])["work_type"] == TYPE
