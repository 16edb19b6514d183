"""The database's clock was set back: what it wrote before lies in the future."""

from collections.abc import Iterator

import pytest

from tests.db.masters import Master, master
from tests.db.recurring import put
from txqueue.model.schedule import Cooldown

SHIFT = "interval '2 minutes'"


@pytest.fixture
def other(dsn: str, node: Master) -> Iterator[Master]:
    """A second node, registered after the first."""
    with master(dsn, "other") as session:
        yield session


def shift(node: Master, table: str, *columns: str) -> None:
    """Move moments of all rows by two minutes, as if the clock had been set back since."""
    moved = ", ".join(f"{column} = {column} + {SHIFT}" for column in columns)
    node.cursor.execute(f"update txqueue.{table} set {moved}")


def pass_lease(node: Master) -> None:
    """Let a lease and its margin pass, in which only the other node sends heartbeats."""
    node.cursor.execute(
        "update txqueue.node_info set leased_at = leased_at - lease - interval '2 s',"
        " heartbeat_at = heartbeat_at - case when name = 'node' then lease + interval '2 s'"
        " else '0' end"
    )


def test_a_dead_node_is_rescued_a_lease_later(node: Master, other: Master) -> None:
    """Not when the clock has caught up; the lease counts from another node's next heartbeat."""
    [job_id] = node.enqueue({})
    node.claim()
    shift(node, "node_info", "heartbeat_at", "leased_at")
    assert other.beats()
    assert node.column("select job_id from txqueue.job_assigned") == [job_id]
    pass_lease(node)
    other.beats()
    assert node.ready() == [job_id]


def test_a_node_that_peers_have_vouched_for_is_rescued(node: Master, other: Master) -> None:
    """Six leases after the clock was set back, at the latest."""
    node.cursor.execute("update txqueue.node_info set vouched_at = heartbeat_at")
    shift(node, "node_info", "vouched_at")
    other.beats()
    late = "select max(vouched_at) <= clock_timestamp() from txqueue.node_info"
    assert node.value(late)


def test_a_job_whose_message_was_lost_is_found(node: Master) -> None:
    """By the check of what the node holds."""
    node.enqueue({})
    [chunk] = node.claim()
    shift(node, "job_assigned", "assigned_at")
    held = "select assignment from txqueue.assignments_of(%s, 1)"
    assert node.column(held, node.incarnation) == [chunk.assignment]


def test_a_rate_lets_jobs_pass(node: Master) -> None:
    """A bucket that is ahead of its clock by more than its burst counts as full, once."""
    node.value("select txqueue.set_limit('queue', 'default', null, 1, 2, null, null, 'me')")
    node.enqueue({}, {}, {}, {})
    assert len(node.claimed_ids()) == 2
    number = node.value("select control_id from txqueue.control")
    bucket = f"txqueue.bucket_{number}"
    node.value(f"select setval('{bucket}', last_value + 120000000) from {bucket}")
    assert len(node.claimed_ids()) == 2
    assert node.claimed_ids() == []


def test_lanes_are_rotated(node: Master) -> None:
    """The last truncation, two minutes from now, is not within the last second."""
    node.enqueue(*[{} for _ in range(300)])
    node.value(
        "select setval('txqueue.rotated', (extract(epoch from now()) * 1000)::bigint + 120000)"
    )
    for chunk in node.claim():
        node.complete(chunk)
    node.value("select txqueue.next_lane(1)")
    did = node.value("select did from txqueue.rotate('{}', 131072, 16)")
    assert any(each.startswith("truncated") for each in did)


def test_a_cooldown_ends(node: Master) -> None:
    """No later than if it began now; one that ends in time is left alone."""
    put(node, when=Cooldown(30))
    node.cursor.execute(
        "update txqueue.schedule set next_due = clock_timestamp() + interval '30 s', last_job = 1"
    )
    mend = "select txqueue.start_missed_cooldowns()"
    assert node.value(mend) == 0
    shift(node, "schedule", "next_due")
    assert node.value(mend) == 1
    assert node.value("select next_due < clock_timestamp() + interval '31 s' from txqueue.schedule")
