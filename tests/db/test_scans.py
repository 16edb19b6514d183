"""What is looked up beside many jobs of another queue reads none of them."""

import pytest

from tests.db.masters import Master

pytestmark = pytest.mark.new_sessions

SCANS = (
    "select coalesce(sum(seq_scan), 0) from pg_stat_xact_user_tables where relname ~ '^job_ready_'"
)
LOOKS = {
    "gauge": "select txqueue.refresh_backlog_flags()",
    "backlog": "select txqueue.backlog('default')",
    "demand": "select txqueue.demand('default')",
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


READ = (
    "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer"
    " from pg_stat_xact_user_tables where relname ~ '^job_ready_'"
)
TURNS = {
    "no tenant": ({}, {"tenant": "paused"}, "('tenant', 'paused', true, 0)"),
    "a tenant": ({"tenant": "acme"}, {"tenant": "paused"}, "('tenant', 'paused', true, 0)"),
    "the reserve": ({"priority": 8}, {"priority": 6}, "('queue', 'default', false, 0.99)"),
}


@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize(("wanted", "others", "control"), TURNS.values(), ids=TURNS)
def test_a_claim_reads_only_what_it_may_take(
    wanted: dict[str, object],
    others: dict[str, object],
    control: str,
    is_analyzed: bool,
    node: Master,
) -> None:
    """Each kind of turn has its own index: jobs that rank before, without a turn, stay unread.

    The plans do not depend on the statistics: a plan that was made for a small table is kept.
    """
    node.cursor.execute(
        f"insert into txqueue.control (kind, key, is_paused, reserve) values {control};"
        " select setval('txqueue.has_limits', 1)"
    )
    node.enqueue(*[{"not_before": "2020-01-01T00:00:00Z", **others}] * 300)
    ids = node.enqueue(wanted, wanted)
    if is_analyzed:
        node.cursor.execute("vacuum analyze txqueue.job_ready")
    node.connection.autocommit = False
    before = node.value(READ)
    assert node.claimed_ids(50) == ids
    assert node.value(READ) - before < 50
    node.connection.rollback()


def test_a_claim_of_a_group_reads_only_what_it_locks(node: Master) -> None:
    """And not the other jobs of its group, nor of the lane, even if the table was small before."""
    node.enqueue(*[{"group": "a"}] * 2)
    node.cursor.execute("vacuum analyze txqueue.job_ready")
    node.take(1)
    node.enqueue(*({"group": f"group-{number}"} for number in range(400)))
    node.connection.autocommit = False
    before = node.value(READ)
    assert len(node.take(5).ids) == 5
    assert node.value(READ) - before < 100
    node.connection.rollback()


def test_a_claim_parks_a_bounded_number_of_jobs(node: Master) -> None:
    """However many of a paused group are at the head; the next claims, at once, park the others."""
    node.value("select txqueue.pause('group', 'g', 'me')")
    group = node.enqueue(*[{"group": "g"}] * 3500)
    others = node.enqueue({}, {})
    for size in (1000, 1):
        before = len(node.waiting("group"))
        claimed = node.take(size)
        assert (claimed.ids, claimed.due_in) == ([], 0)
        assert 900 < len(node.waiting("group")) - before < 1200
    claims = [node.take(reached=claimed.reached or ("-infinity", 0)) for _ in range(3)]
    assert [job_id for claim in claims for job_id in claim.ids] == others
    assert node.waiting("group") == group


def pages(node: Master, jobs: int) -> int:
    """Claim a number of jobs; returns how many pages of tables and indexes that reads."""
    node.cursor.execute(
        "explain (analyze, buffers, timing off, format json) select * from txqueue.next_job"
        "(%s, %s, '{default}', '{test.kind}', %s, %s, 100, 1000, 1)",
        (node.node_id, node.incarnation, jobs, jobs),
    )
    [[[plan]]] = node.cursor.fetchall()
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


def test_a_claim_of_many_groups_reads_the_same_for_each(node: Master) -> None:
    """One claim takes a job of each of a thousand groups, and compares no two of them."""
    node.enqueue(*({"group": f"group-{number}"} for number in range(1200)))
    node.cursor.execute("vacuum analyze txqueue.job_ready")
    pages(node, 1)
    few = pages(node, 100)
    assert pages(node, 1000) < 15 * few
    assert node.states() == {"ready": 99, "assigned": 1101}


FROM = (
    "select count(assignment), max(passed), max(passed_job) from txqueue.next_job"
    "(%s, %s, '{default}', %s::text[], 1, 1, 100, 1000, 1, from_rank => %s, from_job => %s)"
)


@pytest.mark.parametrize(
    "limited", [None, ("group", "g"), ("queue", "another"), ("queue", "default")], ids=str
)
def test_a_claim_goes_on_behind_jobs_that_other_nodes_run(
    limited: tuple[str, str] | None, node: Master
) -> None:
    """It reads none of them again, and finds a later job of its own type.

    A claim with very many types takes long, whatever the machine: only then it says where they end.
    """
    if limited:
        set_limit = "select txqueue.set_limit(%s, %s, 9, null, null, null, null, 'me')"
        node.value(set_limit, *limited)
    node.publish("other.kind")
    *_, last = node.enqueue(*[{"work_type": "other.kind"}] * 500)
    types = [f"kind-{number}" for number in range(50_000)]

    def claim(types: list[str], place: tuple[str, int]) -> tuple[int, str, int]:
        node.cursor.execute(FROM, (node.node_id, node.incarnation, types, *place))
        [row] = node.cursor.fetchall()
        return row

    taken, rank, job_id = claim(types, ("-infinity", 0))
    assert (taken, job_id) == (0, last)
    node.connection.autocommit = False
    before = node.value(READ)
    assert claim(["test.kind"], (rank, job_id))[0] == 0
    assert node.value(READ) - before < 20
    node.enqueue({})
    assert claim(["test.kind"], (rank, job_id))[0] == 1
    node.connection.rollback()


PROBES = "select sum(idx_scan)::integer from pg_stat_xact_user_tables where relname ~ '^job_ready_'"


def test_a_claim_of_many_queues_looks_into_each_once(node: Master) -> None:
    """However many of them its steps take jobs from."""
    queues = [f"queue-{number}" for number in range(300)]
    node.enqueue(*({"queue": queue} for queue in queues * 2))
    node.connection.autocommit = False
    before = node.value(PROBES)
    assert len(node.take(100, queues=queues).ids) == 100
    assert node.value(PROBES) - before < len(queues) + 3 * 64
    node.connection.rollback()


LOOKUPS = (
    "select coalesce(sum(idx_scan), 0)::integer from pg_stat_xact_user_tables where relname ~ %s"
)


def test_a_claim_of_many_limited_queues_looks_each_up_once(node: Master) -> None:
    """Its limits, its key, and its running jobs in each lane; not at each step of the claim."""
    queues = [f"queue-{number}" for number in range(300)]
    node.cursor.execute(
        "insert into txqueue.control (kind, key, concurrency)"
        " select 'queue', queue, 5 from unnest(%s) as queue;"
        " select setval('txqueue.has_limits', 1)",
        (queues,),
    )
    ids = node.enqueue(*({"queue": queue} for queue in queues))
    node.connection.autocommit = False
    tables = {"^key_lock$": 300, "^control$": 300 + 64, "^job_assigned_": 8 * 300}
    before = {table: node.value(LOOKUPS, table) for table in tables}
    assert node.take(50, queues=queues).ids == ids[:50]
    for table, most in tables.items():
        assert node.value(LOOKUPS, table) - before[table] <= most
    node.connection.rollback()


FAILED = (
    "select (coalesce(sum(1000 * seq_scan), 0) + sum(coalesce(idx_tup_fetch, 0)))::integer"
    " from pg_stat_xact_user_tables where relname in ('job_failed', 'job_waiting')"
)


def test_the_kinds_of_failure_are_found_without_reading_all_jobs(node: Master) -> None:
    """It reads one job of each kind for its error, and the index up to a number of jobs."""
    node.cursor.execute(
        "insert into txqueue.job (job_id, rank, not_before, enqueued_at, finished_at, failed_at,"
        " weight, priority, lane, state, work_type, queue, payload, error, fingerprint)"
        " select number, now(), now(), now(), now(), now() + make_interval(secs => number), 1, 4,"
        " 0, 'failed', 'test.kind', 'default', '{}', 'error ' || number, 'kind ' || number %% 3"
        " from generate_series(1, 900) as number",
        (),
    )
    node.cursor.execute("vacuum analyze txqueue.job_failed")
    node.connection.autocommit = False
    before = node.value(FAILED)
    node.cursor.execute(
        "select fingerprint, failed, waiting, example, error, is_more"
        " from txqueue.failure_kinds(2, 100)"
    )
    assert node.cursor.fetchall() == [
        ("kind 0", 100, 0, 900, "error 900", True),
        ("kind 1", 100, 0, 898, "error 898", True),
    ]
    assert node.value(FAILED) - before < 20
    node.connection.rollback()


ASSIGNED = (
    "select (coalesce(sum(1000 * seq_scan), 0) + sum(coalesce(idx_tup_fetch, 0)))::integer"
    " from pg_stat_xact_user_tables where relname ~ '^job_assigned_'"
)


def test_the_search_for_jobs_of_dead_nodes_reads_no_jobs_of_others(
    node: Master, other: Master, third: Master
) -> None:
    """Of jobs that were handed over, it reads one of each node."""
    for each in (node, other, third):
        each.enqueue(*[{}] * 500)
        each.claimed_ids()
    node.cursor.execute("update txqueue.job_assigned set handed = 1")
    node.cursor.execute("vacuum analyze txqueue.job_assigned")
    node.connection.autocommit = False
    before = node.value(ASSIGNED)
    assert node.value("select txqueue.rescue(%s)", node.incarnation) == 0
    assert node.value(ASSIGNED) - before < 50
    node.connection.rollback()
