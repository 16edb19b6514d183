"""Jobs that any session enqueues as assigned to the node that has granted open credit."""

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import psycopg2
import pytest
from attrs import evolve

from tests.db.masters import Master
from tests.db.test_roles import playing
from tests.db.test_short_road import put
from txqueue.model.assignment import AssignedJob, Assignment, notified_job, read_chunk

ENOUGH = 32
# The functions that this transaction has called, as far as they are PL/pgSQL's.
CALLED = "select funcname::text from pg_stat_xact_user_functions where funcname = 'enqueue'"
LISTEN = "select txqueue.listen_to_run(%s)"


# One function enqueues jobs with nothing but a payload, another all others.
BOTH = pytest.mark.parametrize("options", [{}, {"priority": 4}], ids=["plain", "any"])


@pytest.fixture
def granted(node: Master) -> Master:
    """A node that has granted open credit."""
    grant(node, ENOUGH)
    return node


@pytest.fixture
def listening(node: Master, dsn: str) -> Iterator[Any]:
    """A session that listens on the node's channel, as its own session does."""
    with closing(psycopg2.connect(dsn)) as session:
        session.autocommit = True
        listen(session, LISTEN, node.incarnation)
        yield session


def grant(session: Master, jobs: int) -> None:
    """Let any session enqueue so many jobs as assigned to a master."""
    session.value("select txqueue.grant_credit(%s, %s)", session.incarnation, jobs)


def enqueue(session: Master, payload: str = "{}", **options: Any) -> int:
    """Enqueue a job of the kind of the tests by plain SQL."""
    given = {"work_type": "test.kind", "payload": payload, **options}
    names = ", ".join(f'"{name}" => %s' for name in given)
    return int(session.value(f"select txqueue.enqueue({names})", *given.values()))


def is_assigned(session: Master, job_id: int) -> bool:
    """Whether a job was enqueued as assigned."""
    return bool(session.job(job_id)["state"] == "assigned")


def listen(session: Any, sql: str, *parameters: object) -> str:
    """Run the statement that listens; return the name of the channel."""
    with session.cursor() as cursor:
        cursor.execute(sql, parameters)
        return str(cursor.fetchone()[0])


def texts(listening: Any) -> list[str]:
    """The texts of notifications since the last call; the server sends them with an answer."""
    with listening.cursor() as cursor:
        cursor.execute("select")
    listening.poll()
    found = [notify.payload for notify in listening.notifies]
    listening.notifies.clear()
    return found


def told(listening: Any) -> list[Assignment]:
    """The jobs that notifications have brought since the last call."""
    jobs = [notified_job(text) for text in texts(listening)]
    return [job for job in jobs if job is not None]


def jobs_of(brought: list[Assignment]) -> list[AssignedJob]:
    """The jobs of chunks of one job each."""
    return [job for each in brought for job in read_chunk(each.chunk)]


def named(session: Master, job_id: int) -> Assignment:
    """An assignment as a notification names it that cannot hold the job."""
    row = session.job(job_id)
    return Assignment(row["incarnation"], row["assignment"], row["lane"], 1, 1, "")


def test_a_job_is_assigned_and_brought_to_its_node(
    granted: Master, other: Master, listening: Any
) -> None:
    """By the notification of the commit; its token completes it."""
    job_id = enqueue(other, '{"a": 1}', options='{"attempts": 2}', priority=7)
    row = other.job(job_id)
    assert (row["state"], row["handed"], row["priority"]) == ("assigned", 2, 7)
    assert (row["node_id"], row["incarnation"]) == (granted.node_id, granted.incarnation)
    (brought,) = told(listening)
    assert brought == evolve(named(other, job_id), chunk=brought.chunk)
    expected = AssignedJob(job_id, "test.kind", 1, 1, {"a": 1}, {"attempts": 2})
    assert jobs_of([brought]) == [expected]
    assert granted.claimed_ids() == other.claimed_ids() == []
    done = granted.value(
        "select total from txqueue.complete"
        "(%s, array[%s]::smallint[], array[%s]::bigint[], array[%s])",
        *(granted.incarnation, brought.lane, brought.number, f"{{{job_id}}}"),
    )
    assert (done, granted.job(job_id)["state"]) == (1, "done")


@pytest.mark.parametrize("sign", ["x", "\u2028", "\N{OLD ITALIC LETTER A}"])
def test_a_job_that_is_too_long_for_a_notification_is_claimed(
    granted: Master, other: Master, listening: Any, sign: str
) -> None:
    """PostgreSQL refuses longer ones; a payload that is stored compressed may be one."""
    other.cursor.execute("create temporary table document (body jsonb)")
    other.cursor.execute(
        "insert into document values (jsonb_build_object('a', repeat(%s, 25000)))", (sign,)
    )
    job_id = int(other.value("select txqueue.enqueue('test.kind', body) from document"))
    assert told(listening) == []
    assert other.claimed_ids() == [job_id]
    assigned = []
    for length in range(7_750, 7_850):
        grant(granted, ENOUGH)
        other.cursor.execute(
            "update document set body = jsonb_build_object('a', repeat('x', %s))", (length,)
        )
        job_id = int(other.value("select txqueue.enqueue('test.kind', body) from document"))
        assigned.append(is_assigned(other, job_id))
    assert assigned == sorted(assigned, reverse=True)
    assert {*assigned} == {True, False}
    assert len(told(listening)) == assigned.count(True)


def test_a_run_keeps_its_channel_when_it_connects_anew(
    granted: Master, other: Master, dsn: str, listening: Any
) -> None:
    """A transaction may be open meanwhile; another run has another channel, one that ended none."""
    with closing(psycopg2.connect(dsn)) as session:
        session.autocommit = True
        names = {listen(session, LISTEN, granted.incarnation) for _ in range(3)}
        assert len(names) == 1
        assert listen(session, LISTEN, other.incarnation) not in names
        enqueue(other)
        assert len(told(session)) == len(told(listening)) == 1
        assert listen(session, LISTEN, granted.incarnation + 1000) == "None"
    granted.cursor.execute("update txqueue.node_info set incarnation = incarnation + 1000")
    granted.value(LISTEN, granted.incarnation + 1000)
    left = granted.column("select incarnation from txqueue.node_channel")
    assert left == [granted.incarnation + 1000]


def test_a_probe_repairs_a_lost_channel(granted: Master, dsn: str) -> None:
    """As an operator may delete the row."""
    with closing(psycopg2.connect(dsn)) as session:
        session.autocommit = True
        first = listen(session, LISTEN, granted.incarnation)
        probe = "select txqueue.probe_run(%s)"
        assert listen(session, probe, granted.incarnation) == first
        assert texts(session) == ["probe"]
        granted.cursor.execute("delete from txqueue.node_channel")
        assert listen(session, probe, granted.incarnation) != first
        assert texts(session) == ["probe"]
        enqueue(granted)
        assert len(told(session)) == 1


TRACES = """
    set trace_notify = on; set debug_print_parse = on; set debug_print_rewritten = on;
    set debug_print_plan = on; set client_min_messages = debug5;
    set log_parameter_max_length_on_error = -1; set plpgsql.print_strict_params = on;
    set plan_cache_mode = {}"""


@BOTH
@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
def test_no_other_role_learns_the_channel(
    granted: Master, listening: Any, plans: str, options: dict[str, Any]
) -> None:
    """Neither from the table, nor from statements, nor from what a session may trace."""
    (channel,) = granted.column("select channel from txqueue.node_channel")
    seen = "select query from pg_stat_activity where query like '%listen_to_run%'"
    assert any(granted.column(seen))
    assert not any(channel in each for each in granted.column(seen))
    for role in ("txqueue_enqueue", "txqueue_worksets", "txqueue_worker", "txqueue_read"):
        with playing(granted, role), pytest.raises(psycopg2.errors.InsufficientPrivilege):
            granted.column("select channel from txqueue.node_channel")
    granted.cursor.execute(TRACES.format(plans))
    # Of a list psycopg2 keeps the last fifty.
    said: deque[str] = deque()
    cast("Any", granted.connection).notices = said
    for role in ("txqueue_enqueue", "txqueue_worker"):
        with playing(granted, role):
            for text in ("a", "b" * 1_500):
                enqueue(granted, f'{{"a": "{text}"}}', **options)
    assert any("enqueue" in each for each in said)
    plain, packed = channel, " ".join(str(ord(sign)) for sign in channel[:8])
    assert not any(plain in each or packed in each for each in said)
    assert len(told(listening)) == 4


def test_a_migration_takes_rights_to_the_channels_away(node: Master) -> None:
    """As default privileges may have given them; also those to one column, and passed on."""
    node.cursor.execute(
        "grant select on txqueue.node_channel to txqueue_read with grant option;"
        "grant update on txqueue.node_channel to public;"
        "grant select (channel) on txqueue.node_channel to txqueue_enqueue;"
        "set role txqueue_read; grant select on txqueue.node_channel to txqueue_worker; reset role;"
        "select txqueue.grant_roles()"
    )
    rights = "select count(*) from pg_class, aclexplode(relacl) where oid = %s::regclass"
    columns = "select count(*) from pg_attribute, aclexplode(attacl) where attrelid = %s::regclass"
    assert node.value(columns, "txqueue.node_channel") == 0
    assert node.value(f"{rights} and grantee <> relowner", "txqueue.node_channel") == 0


def test_it_is_as_the_ordinary_one(granted: Master) -> None:
    """In all that a job has before it is claimed."""
    granted.publish("test.kind", priority=6)
    assigned = granted.job(enqueue(granted, '{"a": 1}', options='{"timeout": 1}'))
    grant(granted, 0)
    ready = granted.job(enqueue(granted, '{"a": 1}', options='{"timeout": 1}'))
    assert (assigned["state"], ready["state"]) == ("assigned", "ready")
    same = ("work_type", "queue", "priority", "weight", "attempt", "deaths", "payload", "options")
    assert {name: assigned[name] for name in same} == {name: ready[name] for name in same}
    assert assigned["not_before"] - assigned["rank"] == ready["not_before"] - ready["rank"]


def test_a_plain_job_is_as_one_with_all_that_its_type_says(granted: Master) -> None:
    """The function for jobs with nothing but a payload writes the same row without the other."""
    granted.publish("test.kind", priority=6)
    granted.cursor.execute("set track_functions = 'pl'")
    granted.connection.autocommit = False
    plain = enqueue(granted, '{"a": 1}')
    assert granted.column(CALLED) == ["enqueue"]
    whole = enqueue(granted, '{"a": 1}', priority=6)
    assert granted.column(CALLED) == ["enqueue"] * 2
    assert (is_assigned(granted, plain), is_assigned(granted, whole)) == (True, True)
    own = "array['job_id', 'assignment', 'assigned_at']"
    row = f"select to_jsonb(job) - {own} from txqueue.job where job_id = %s"
    assert granted.value(row, plain) == granted.value(row, whole)
    granted.connection.rollback()
    granted.connection.autocommit = True


def test_a_plain_job_of_a_paused_queue_is_not_assigned(granted: Master) -> None:
    """The function leaves it to the other one, as it may have a limit."""
    granted.value("select txqueue.pause('queue', 'default', 'ann')")
    assert not is_assigned(granted, enqueue(granted))


@BOTH
def test_credit_is_used_up(node: Master, options: dict[str, Any]) -> None:
    """Later jobs are claimed, by whichever node is first; so are those of a withdrawn credit."""
    grant(node, 3)
    assert [is_assigned(node, enqueue(node, **options)) for _ in range(5)] == [True] * 3 + [
        False
    ] * 2
    grant(node, 5)
    assert is_assigned(node, enqueue(node, **options))
    grant(node, 0)
    assert not is_assigned(node, enqueue(node, **options))


def test_many_jobs_of_one_transaction(granted: Master, listening: Any) -> None:
    """Each is brought once, and nothing of a transaction that is rolled back."""
    with granted.connection.cursor() as cursor:
        cursor.execute(
            "begin; select txqueue.enqueue('test.kind', '{}') from generate_series(1, 3); rollback"
        )
    assert told(listening) == []
    ids = granted.column(
        "select txqueue.enqueue('test.kind', '{}') from generate_series(1, %s)", ENOUGH
    )
    brought = told(listening)
    assert [job.job_id for job in jobs_of(brought)] == ids[: ENOUGH - 3]


@pytest.mark.parametrize(
    "options",
    [
        {"group": "a"},
        {"tenant": "a"},
        {"weight": 2},
        {"not_before": "2999-01-01"},
        {"not_after": "2999-01-01"},
        {"queue": "unserved"},
        {"work_type": "test.unknown"},
        {"unique": "a"},
        {"after": [1]},
    ],
)
def test_jobs_that_need_a_decision(granted: Master, options: dict[str, Any]) -> None:
    """They are claimed, and take nothing of the credit."""
    before = granted.value("select last_value from txqueue.open_credit")
    enqueue(granted)
    assert granted.column("select state from txqueue.job") == ["assigned"]
    job_id = enqueue(granted, **options)
    assert granted.job(job_id)["state"] in ("ready", "waiting")
    assert granted.value("select last_value from txqueue.open_credit") == before + 1


@BOTH
@pytest.mark.parametrize(
    "change",
    [
        "update txqueue.node_info set state = 'draining'",
        "update txqueue.node_info set heartbeat_at = clock_timestamp() - lease * 0.6",
        "update txqueue.node_info set vouched_at = now()",
        "update txqueue.node_info set incarnation = incarnation + 1000",
        "update txqueue.node_info set work_types = '{}'",
        "select txqueue.pause('queue', 'default', 'me')",
        "select txqueue.set_limit('queue', 'default', 9, null, null, null, null, 'me')",
    ],
)
def test_a_node_that_may_not_have_it(granted: Master, change: str, options: dict[str, Any]) -> None:
    """It drains, has sent no heartbeat for a while, or the queue is limited."""
    granted.cursor.execute(change)
    assert not is_assigned(granted, enqueue(granted, **options))


@BOTH
def test_a_limit_that_older_code_has_set(node: Master, options: dict[str, Any]) -> None:
    """It holds as soon as a node grants credit, even if the sequence was not set with it."""
    node.cursor.execute(
        "insert into txqueue.control (kind, key, is_paused) values ('queue', 'default', true)"
    )
    grant(node, 5)
    assert not is_assigned(node, enqueue(node, **options))


def test_a_limit_that_is_gone(granted: Master) -> None:
    """Later jobs take of the credit again."""
    granted.cursor.execute("select txqueue.pause('queue', 'default', 'me')")
    granted.cursor.execute("select txqueue.resume('queue', 'default', 'me')")
    assert is_assigned(granted, enqueue(granted))


def test_another_node_gets_its_turn_when_the_credit_is_used_up(
    granted: Master, other: Master
) -> None:
    """Or when the node that has granted it is dead; but it cannot withdraw it."""
    grant(other, 1)
    grant(other, 0)
    assert granted.job(enqueue(other))["node_id"] == granted.node_id
    granted.cursor.execute(
        "update txqueue.node_info set state = 'dead' where incarnation = %s", (granted.incarnation,)
    )
    grant(other, 1)
    assert granted.job(enqueue(granted))["node_id"] == other.node_id
    granted.cursor.execute(
        "update txqueue.node_info set state = 'alive' where incarnation = %s",
        (granted.incarnation,),
    )
    grant(granted, 1)
    assert granted.job(enqueue(other))["node_id"] == granted.node_id


@pytest.mark.parametrize(
    ("payload", "options"),
    [
        ("[]", {}),
        ('{"a": ' + "1" * 5_000 + "}", {}),
        ('{"a": "' + "x" * 2_000_000 + '"}', {}),
        ("{}", {"priority": 10}),
        ("{}", {"queue": ""}),
        ("{}", {"options": '{"timeout": 0}'}),
    ],
)
def test_what_cannot_be_a_job(granted: Master, payload: str, options: dict[str, Any]) -> None:
    """Is refused with or without credit, and takes nothing of it."""
    before = granted.value("select last_value from txqueue.open_credit")
    with pytest.raises(psycopg2.Error) as error:
        enqueue(granted, payload, **options)
    assert error.value.pgcode == "TXQ01"
    assert granted.value("select last_value from txqueue.open_credit") == before


def test_a_job_that_commits_after_its_node_has_died(granted: Master, other: Master) -> None:
    """It is given to those that live."""
    other.connection.autocommit = False
    job_id = enqueue(other)
    granted.cursor.execute(
        "update txqueue.node_info set state = 'dead' where incarnation = %s", (granted.incarnation,)
    )
    granted.cursor.execute("select txqueue.rescue()")
    other.connection.commit()
    other.connection.autocommit = True
    other.cursor.execute("select txqueue.rescue()")
    assert other.claimed_ids() == [job_id]
    assert other.job(job_id)["deaths"] == 0


def test_roles(granted: Master) -> None:
    """Who may enqueue takes of the credit, and cannot grant any."""
    with playing(granted, "txqueue_enqueue"):
        job_id = enqueue(granted)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            grant(granted, 5)
    assert is_assigned(granted, job_id)
    with playing(granted, "txqueue_worker"):
        grant(granted, 5)


@BOTH
@pytest.mark.parametrize(
    "begin",
    [
        "begin; set local synchronous_commit = off",
        "begin isolation level repeatable read",
        "begin isolation level serializable",
        "begin; set local lock_timeout = '999ms'",
    ],
)
def test_jobs_of_some_transactions_are_claimed(
    granted: Master, other: Master, begin: str, options: dict[str, Any]
) -> None:
    """Of those that may be lost in a crash, that see no pause set meanwhile, or may not notify."""
    other.cursor.execute(begin)
    job_id = enqueue(other, **options)
    assert other.value(
        "select assignment is null from txqueue.enqueue_assigned(%s, %s, 'test.kind', '{}')",
        granted.node_id,
        granted.incarnation,
    )
    other.cursor.execute("commit")
    assert not is_assigned(granted, job_id)


@BOTH
def test_large_jobs_are_claimed(granted: Master, other: Master, options: dict[str, Any]) -> None:
    """One statement reads all that notifications have named."""
    payload = "".join(format(each, "x") for each in range(2000))
    assert not is_assigned(granted, enqueue(other, f'{{"a": "{payload}"}}', **options))
    assert is_assigned(granted, enqueue(other, f'{{"a": "{payload[:1500]}"}}', **options))


def test_credit_that_is_not_used_gives_way(granted: Master, other: Master) -> None:
    """A node that serves other jobs would keep all others from granting any."""
    grants = "select txqueue.grant_credit(%s, 8, %s)"
    seen = other.value(grants, other.incarnation, None)
    assert seen is not None
    assert is_assigned(granted, enqueue(other))
    again = other.value(grants, other.incarnation, seen)
    assert again not in (None, seen)
    assert other.value(grants, other.incarnation, again) is None
    assert granted.job(enqueue(granted))["incarnation"] == other.incarnation


@pytest.mark.parametrize("is_direct", [False, True], ids=["open credit", "direct"])
def test_a_job_is_not_restarted_by_the_transaction_that_enqueues_it(
    granted: Master, other: Master, listening: Any, is_direct: bool
) -> None:
    """Its run begins with the commit, and a second one would run beside it."""
    other.cursor.execute("begin")
    job_id = put(other, granted).job_id if is_direct else enqueue(other)
    refused = other.value("select refused from txqueue.restart(array[%s]::bigint[], 'ann')", job_id)
    other.cursor.execute("commit")
    assert refused == [job_id]
    if not is_direct:
        assert [job.job_id for job in jobs_of(told(listening))] == [job_id]
    assert is_assigned(other, job_id)
    assert granted.claimed_ids() == other.claimed_ids() == []
    assert other.value("select count(*) from txqueue.request") == 0
    again = other.value("select restarted from txqueue.restart(array[%s]::bigint[], 'ann')", job_id)
    assert [found[2] for found in again] == [job_id]


def test_what_else_the_transaction_that_enqueues_a_job_does_to_it(
    granted: Master, other: Master, listening: Any
) -> None:
    """A cancellation is requested of its node, and a priority is not changed: it has one run."""
    other.cursor.execute("begin")
    job_id = enqueue(other)
    token = named(other, job_id)
    refused = other.value(
        "select refused from txqueue.set_priority(array[%s]::bigint[], 7, 'ann')", job_id
    )
    requested = other.value(
        "select requested from txqueue.cancel(array[%s]::bigint[], 'ann')", job_id
    )
    other.cursor.execute("commit")
    assert (refused, [found[2] for found in requested]) == ([job_id], [job_id])
    assert [job.number for job in told(listening)] == [token.number]
    assert named(other, job_id) == token
    assert granted.claimed_ids() == other.claimed_ids() == []
    (cancelled,) = granted.value(
        "select cancels from txqueue.heartbeat(%s, 0)", granted.incarnation
    )
    assert cancelled[:2] == [token.number, job_id]


def test_a_job_of_a_savepoint_that_is_rolled_back(
    granted: Master, other: Master, listening: Any
) -> None:
    """No notification brings it; one enqueued after it is brought."""
    other.cursor.execute("begin; savepoint before")
    enqueue(other)
    other.cursor.execute("rollback to savepoint before")
    job_id = enqueue(other)
    other.cursor.execute("commit")
    assert [job.job_id for job in jobs_of(told(listening))] == [job_id]
