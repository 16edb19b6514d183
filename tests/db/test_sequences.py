"""Sequences and flags that are behind their tables, as logical replication copies none."""

from tests.db.masters import Master
from txqueue.store.schema.migrations import migrate

SEQUENCES = "select sequencename::text from pg_sequences where schemaname = 'txqueue' order by 1"


def reset_all(node: Master) -> None:
    """Set all sequences to their start, as in a copy that logical replication has made."""
    for name in node.column(SEQUENCES):
        node.cursor.execute(f"alter sequence txqueue.{name} restart")


def fill(node: Master) -> None:
    """Have rows of each kind: jobs, a tenant's among them, a limit, a schedule, an action."""
    node.enqueue({}, {"tenant": "blue"}, {"not_before": "2100-01-01", "tenant": "red"})
    node.value("select txqueue.set_limit('queue', 'other', null, 1, 1, null, null, 'me')")
    node.cursor.execute("insert into txqueue.late_end values (1)")
    node.value("select setval('txqueue.has_late_ends', 1)")


def test_nothing_is_behind(node: Master) -> None:
    """In a database that was not copied."""
    fill(node)
    assert node.value("select txqueue.advance_sequences()") == []


def test_all_sequences_of_a_copy_are_set(node: Master) -> None:
    """No number is given twice, and flags are as the tables say; the second time none is left."""
    fill(node)
    reset_all(node)
    number = node.value("select control_id from txqueue.control")
    node.cursor.execute(f"drop sequence txqueue.bucket_{number}")
    highest = node.value("select max(job_id) from txqueue.job")
    assert node.value("select txqueue.advance_sequences()") == [
        "action_action_id_seq",
        f"bucket_{number}",
        "control_control_id_seq",
        "has_late_ends",
        "has_limits",
        "has_tenants",
        "job_id",
        "node_info_node_id_seq",
    ]
    assert node.value("select txqueue.advance_sequences()") == []
    assert node.enqueue({}) == [highest + 1]


def test_a_tenant_of_a_waiting_job_is_only_searched_thoroughly(node: Master) -> None:
    """A node that starts does not read all waiting jobs; a migration and doctor do."""
    node.enqueue({"not_before": "2100-01-01", "tenant": "red"})
    reset_all(node)
    lagging = "select name from txqueue.lagging_sequences({}) where name like 'has%%'"
    assert node.column(lagging.format("false")) == []
    assert node.column(lagging.format("true")) == ["has_tenants"]


def test_a_migration_sets_them(node: Master, dsn: str) -> None:
    """And tells which."""
    node.enqueue({})
    reset_all(node)
    assert migrate(dsn).advanced == ["job_id", "node_info_node_id_seq"]
    assert migrate(dsn).advanced == []
