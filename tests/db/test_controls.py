"""What holds queues, groups and tenants back: set, lifted, and gone when it says nothing."""

from typing import Any

import pytest

from tests.db.masters import Master


def controls(session: Master) -> list[tuple[Any, ...]]:
    """All rows, without what is as it is by itself."""
    session.cursor.execute(
        "select kind, key, is_paused, concurrency, rate, burst, share, reserve"
        " from txqueue.control order by kind, key"
    )
    return list(session.cursor.fetchall())


def limit(session: Master, kind: str, key: str, *cleared: str, **limits: object) -> Any:
    """Set limits as ann; returns the control that is left."""
    names = ("concurrency", "rate", "burst", "share", "reserve")
    return session.value(
        "select txqueue.set_limit(%s, %s, %s, %s, %s, %s, %s, 'ann', %s::text[])",
        *(kind, key, *(limits.get(name) for name in names), list(cleared)),
    )


def buckets(session: Master) -> list[str]:
    """The sequences that rates are kept in."""
    return session.column(
        "select relname from pg_class where relkind = 'S' and relname like 'bucket%%'"
    )


@pytest.mark.parametrize("kind", ["queue", "group", "tenant"])
def test_paused_and_resumed(node: Master, kind: str) -> None:
    """Each says whether it changed anything; a control that says nothing is gone."""
    assert node.value("select txqueue.pause(%s, 'k', 'ann')", kind) is True
    assert node.value("select txqueue.pause(%s, 'k', 'bob')", kind) is False
    assert controls(node) == [(kind, "k", True, None, None, 1, 1, 0)]
    assert node.value("select txqueue.resume(%s, 'k', 'ann')", kind) is True
    assert node.value("select txqueue.resume(%s, 'k', 'ann')", kind) is False
    assert controls(node) == []
    assert node.column(
        "select who || ' ' || what || ' ' || subject from txqueue.action order by action_id"
    )[:2] == [f"ann pause {kind} k", f"bob pause {kind} k"]


def test_resuming_wakes_the_masters(node: Master) -> None:
    """Even if the flag says that no master sleeps."""
    node.cursor.execute("listen txqueue")
    node.value("select txqueue.pause('queue', 'k', 'ann')")
    node.value("select txqueue.resume('queue', 'k', 'ann')")
    node.connection.poll()
    assert {notice.channel for notice in node.connection.notifies} == {"txqueue"}


def test_limits_are_set_one_by_one(node: Master) -> None:
    """What is not named stays; what is cleared goes; a pause outlasts them."""
    assert limit(node, "queue", "mail", concurrency=3)["concurrency"] == 3
    assert limit(node, "queue", "mail", rate=2.5, burst=10)["concurrency"] == 3
    assert controls(node) == [("queue", "mail", False, 3, 2.5, 10, 1, 0)]
    node.value("select txqueue.pause('queue', 'mail', 'ann')")
    assert limit(node, "queue", "mail", "concurrency", reserve=0.2)["concurrency"] is None
    assert limit(node, "queue", "mail", "rate", "reserve")["burst"] == 1
    assert controls(node) == [("queue", "mail", True, None, None, 1, 1, 0)]
    node.value("select txqueue.resume('queue', 'mail', 'ann')")
    assert controls(node) == []
    assert limit(node, "tenant", "t", share=2)["share"] == 2
    assert limit(node, "tenant", "t", "share") is None


def test_a_rate_has_a_bucket_while_there_is_one(node: Master) -> None:
    """Kept when the rate changes, dropped with it."""
    limit(node, "queue", "mail", rate=1)
    limit(node, "queue", "mail", rate=2)
    assert buckets(node) == [f"bucket_{node.value('select control_id from txqueue.control')}"]
    limit(node, "queue", "mail", "rate")
    assert buckets(node) == []


def test_what_runs_already_counts(node: Master) -> None:
    """A limit set at run time sees the jobs that were taken before it."""
    node.enqueue({}, {})
    node.claim(1)
    limit(node, "queue", "default", concurrency=2)
    assert node.column("select counted from txqueue.job_assigned") == [1]


@pytest.mark.parametrize(
    ("kind", "limits", "said"),
    [
        ("queue", {"concurrency": 0}, "below 1"),
        ("queue", {"rate": 0}, "rate of 0"),
        ("queue", {"rate": 9e-7}, "rate of 9e-07"),
        ("queue", {"rate": "nan"}, "rate of NaN"),
        ("queue", {"rate": 1e7}, "rate of 10000000"),
        ("queue", {"rate": 1, "burst": 0}, "burst of 0"),
        ("queue", {"burst": 2}, "burst without a rate"),
        ("queue", {"share": 2}, "a queue has no share"),
        ("tenant", {"share": 0}, "share of 0"),
        ("tenant", {"share": 9e-7}, "share of 9e-07"),
        ("group", {"reserve": 0.1}, "a group has no reserve"),
        ("queue", {"reserve": 1}, "reserve of 1"),
        ("worker", {"concurrency": 1}, "neither a queue nor a group nor a tenant"),
    ],
)
def test_wrong_limits(node: Master, kind: str, limits: dict[str, object], said: str) -> None:
    """Refused with what is wrong; nothing is written."""
    with pytest.raises(Exception, match=said):
        limit(node, kind, "k", **limits)
    assert controls(node) == []
    assert node.column("select 1 from txqueue.action") == []
