"""A publication of all tables, as change data capture makes it, does not stop the queue."""

import json

from tests.db.masters import Master


def test_the_queue_works_under_a_publication_for_all_tables(node: Master, other: Master) -> None:
    """Deletions and updates of each table need an identity there, also in those made later."""
    node.cursor.execute("create publication everything for all tables")
    try:
        ids = node.enqueue({}, {"group": "g"}, {"group": "g"}, {"tenant": "t"}, {"unique": "k"})
        child = node.value("select txqueue.enqueue('test.kind', '{}', after => %s)", ids[:1])
        (chunk, *more) = node.claim()
        assert node.complete(chunk) >= 1
        for each in more:
            node.settle(each, "failed", error="x")
        node.value("select cancelled from txqueue.cancel(%s::bigint[], 'me')", [child])
        node.value("select retried from txqueue.retry(%s::bigint[], 'me')", [child, *ids])
        for taken in node.claim():
            node.release(taken.assignment, died=True)
        node.value("select txqueue.set_limit('group', 'g', 1, 5, 5, null, null, 'me')")
        lift = "'group', 'g', null, null, null, null, null, 'me', '{rate,concurrency}'"
        node.value(f"select txqueue.set_limit({lift})")
        spec = {"name": "p", "work_type": "p.kind", "columns": [["n", "bigint"]], "size": 1}
        spec |= {"batch": 10, "job": {"work_type": "p.kind", "payload": {}}}
        assert node.value("select txqueue.ensure_workset(%s)", json.dumps(spec))
        node.value("select did is not null from txqueue.rotate()")
        node.value("select txqueue.ensure_history()::text")
        assert node.beats()
        assert other.beats()
        lacking = node.column(
            "select relname::text from pg_class where relnamespace = 'txqueue'::regnamespace"
            " and relkind = 'r' and relpersistence = 'p' and relreplident = 'd'"
            " and relname not in ('migrating', 'claiming')"
            " and not exists"
            " (select from pg_index where indrelid = pg_class.oid and indisprimary)"
        )
        assert lacking == []
    finally:
        node.cursor.execute("drop publication everything")
