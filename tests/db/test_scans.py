"""What is looked up beside many jobs of another queue reads none of them."""

import pytest

from tests.db.masters import Master

SCANS = (
    "select coalesce(sum(seq_scan), 0) from pg_stat_xact_user_tables where relname ~ '^job_ready_'"
)
LOOKS = {
    "gauge": "select txqueue.refresh_backlog_flags()",
    "backlog": "select txqueue.backlog('default')",
    "explain": "select txqueue.explain_facts({ready})",
    "coalesce": "select count(*) from txqueue.coalesce_into({incarnation}, {token}, {job}, 9)",
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("tenant", [None, "acme"])
def test_it_reads_by_index(look: str, tenant: str | None, node: Master) -> None:
    """With and without a tenant."""
    node.cursor.execute(
        "insert into txqueue.control (kind, key, backlog) values ('queue', 'default', 9)"
    )
    node.enqueue({"tenant": tenant})
    (chunk,) = node.claim()
    (ready,) = node.enqueue({"tenant": tenant})
    node.enqueue(*({"queue": "other", "tenant": tenant} for _ in range(100)))
    node.connection.autocommit = False
    before = node.value(SCANS)
    node.value(
        look.format(
            ready=ready,
            incarnation=node.incarnation,
            token=chunk.assignment,
            job=chunk.ids[0],
        )
    )
    assert node.value(SCANS) == before
    node.connection.rollback()
