"""Jobs that any session enqueues as assigned to the node that has granted open credit."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from tests.db.masters import Master
from tests.db.test_roles import playing
from tests.db.test_short_road import put
from txqueue.model.assignment import NamedJob, named_job
from txqueue.model.chunk import AssignedJob, read_chunk

ENOUGH = 32


@pytest.fixture
def granted(node: Master) -> Master:
    """A node that has granted open credit."""
    grant(node, ENOUGH)
    return node


@pytest.fixture
def listening(node: Master, dsn: str) -> Iterator[Any]:
    """A session that listens on the node's channel."""
    with closing(psycopg2.connect(dsn)) as session:
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute(f"listen txqueue_run_{node.incarnation}")
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


def told(listening: Any) -> list[NamedJob | None]:
    """The jobs that notifications have named since; the server sends them with an answer."""
    with listening.cursor() as cursor:
        cursor.execute("select")
    listening.poll()
    texts = [notify.payload for notify in listening.notifies]
    listening.notifies.clear()
    return [named_job(text) for text in texts]


def read(session: Master, *named: NamedJob) -> list[list[AssignedJob] | None]:
    """Read named jobs as a master does."""
    chunks: list[str | None] = session.value(
        "select txqueue.notified_jobs(%s, %s::integer[], %s::bigint[])",
        session.incarnation,
        [job.lane for job in named],
        [job.assignment for job in named],
    )
    return [None if chunk is None else read_chunk(chunk) for chunk in chunks]


def test_a_job_is_assigned_and_its_node_notified(
    granted: Master, other: Master, listening: Any
) -> None:
    """At the commit, by the number of the assignment alone; its token completes it."""
    job_id = enqueue(other, '{"a": 1}', options='{"attempts": 2}', priority=7)
    row = other.job(job_id)
    assert (row["state"], row["handed"], row["priority"]) == ("assigned", 2, 7)
    assert (row["node_id"], row["incarnation"]) == (granted.node_id, granted.incarnation)
    (named,) = told(listening)
    assert named == NamedJob(row["lane"], row["assignment"])
    expected = AssignedJob(job_id, "test.kind", 1, 1, {"a": 1}, {"attempts": 2})
    assert read(granted, named) == [[expected]]
    assert granted.claimed_ids() == other.claimed_ids() == []
    done = granted.value(
        "select total from txqueue.complete"
        "(%s, array[%s]::smallint[], array[%s]::bigint[], array[%s])",
        *(granted.incarnation, named.lane, named.assignment, f"{{{job_id}}}"),
    )
    assert (done, granted.job(job_id)["state"]) == (1, "done")
    assert read(granted, named) == [None]


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


def test_credit_is_used_up(node: Master) -> None:
    """Later jobs are claimed, by whichever node is first; so are those of a withdrawn credit."""
    grant(node, 3)
    assert [is_assigned(node, enqueue(node)) for _ in range(5)] == [True] * 3 + [False] * 2
    grant(node, 5)
    assert is_assigned(node, enqueue(node))
    grant(node, 0)
    assert not is_assigned(node, enqueue(node))


def test_many_jobs_of_one_transaction(granted: Master, listening: Any) -> None:
    """Each is named once, and nothing of a transaction that is rolled back."""
    with granted.connection.cursor() as cursor:
        cursor.execute(
            "begin; select txqueue.enqueue('test.kind', '{}') from generate_series(1, 3); rollback"
        )
    assert told(listening) == []
    ids = granted.column(
        "select txqueue.enqueue('test.kind', '{}') from generate_series(1, %s)", ENOUGH
    )
    named = told(listening)
    assert len(set(named)) == len(named) == ENOUGH - 3
    chunks = read(granted, *[job for job in named if job is not None])
    assert [chunk[0].job_id for chunk in chunks if chunk] == ids[: ENOUGH - 3]


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
def test_a_node_that_may_not_have_it(granted: Master, change: str) -> None:
    """It drains, has sent no heartbeat for a while, or the queue is limited."""
    granted.cursor.execute(change)
    assert not is_assigned(granted, enqueue(granted))


def test_a_limit_that_older_code_has_set(node: Master) -> None:
    """It holds as soon as a node grants credit, even if the sequence was not set with it."""
    node.cursor.execute(
        "insert into txqueue.control (kind, key, is_paused) values ('queue', 'default', true)"
    )
    grant(node, 5)
    assert not is_assigned(node, enqueue(node))


def test_a_job_that_runs_is_not_read_again(granted: Master) -> None:
    """A notification may be sent again after a long time, by any role."""
    job = granted.job(enqueue(granted))
    granted.cursor.execute("update txqueue.job set started_at = now()")
    assert read(granted, NamedJob(job["lane"], job["assignment"])) == [None]


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


def test_a_node_is_not_told_of_other_jobs_by_a_forged_notification(
    granted: Master, other: Master
) -> None:
    """Any role may notify: neither another node's job is read, nor one of direct dispatch."""
    job = granted.job(enqueue(other))
    named = NamedJob(job["lane"], job["assignment"])
    assert read(other, named, NamedJob(7, 1)) == [None, None]
    direct = put(other, granted)
    assert direct.lane is not None
    assert direct.assignment is not None
    assert read(granted, NamedJob(direct.lane, direct.assignment)) == [None]


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
    """Who may enqueue takes of the credit, and can neither grant any nor read the jobs."""
    with playing(granted, "txqueue_enqueue"):
        job_id = enqueue(granted)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            grant(granted, 5)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            read(granted, NamedJob(0, 1))
    assert is_assigned(granted, job_id)
    with playing(granted, "txqueue_worker"):
        grant(granted, 5)
        read(granted, NamedJob(0, 1))


@pytest.mark.parametrize(
    "begin",
    [
        "begin; set local synchronous_commit = off",
        "begin isolation level repeatable read",
        "begin isolation level serializable",
        "begin; set local lock_timeout = '999ms'",
    ],
)
def test_jobs_of_some_transactions_are_claimed(granted: Master, other: Master, begin: str) -> None:
    """Of those that may be lost in a crash, that see no pause set meanwhile, or may not notify."""
    other.cursor.execute(begin)
    job_id = enqueue(other)
    assert other.value(
        "select assignment is null from txqueue.enqueue_assigned(%s, %s, 'test.kind', '{}')",
        granted.node_id,
        granted.incarnation,
    )
    other.cursor.execute("commit")
    assert not is_assigned(granted, job_id)


def test_large_jobs_are_claimed(granted: Master, other: Master) -> None:
    """One statement reads all that notifications have named."""
    payload = "".join(format(each, "x") for each in range(2000))
    assert not is_assigned(granted, enqueue(other, f'{{"a": "{payload}"}}'))
    assert is_assigned(granted, enqueue(other, f'{{"a": "{payload[:1500]}"}}'))


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
