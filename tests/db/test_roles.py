"""What each role may do, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import define
from psycopg2.errors import InsufficientPrivilege
from psycopg2.extensions import make_dsn

from tests.db.masters import Master
from txqueue import WorkItem, WorkQueue
from txqueue.errors import ConfigurationError, NotPermitted
from txqueue.store.schema.migrations import check_database, check_node_role


@define
class Greeting(WorkItem):
    """Some work."""

    work_type = "roles.greeting"

    name: str

    def perform(self, job: Any) -> None:
        """Do nothing."""


@contextmanager
def playing(session: Master, role: str) -> Iterator[None]:
    """Act as a role."""
    session.cursor.execute(f"set role {role}")
    try:
        yield
    finally:
        session.cursor.execute("reset role")


def refused(session: Master, statement: str) -> bool:
    """Tell whether the role may not do this."""
    try:
        session.cursor.execute(statement)
    except InsufficientPrivilege:
        return True
    return False


CHANGES = [
    "insert into txqueue.job select * from txqueue.job",
    "update txqueue.job set priority = 9",
    "delete from txqueue.job",
    "truncate txqueue.job",
    "update txqueue.setting set payload_limit = 1",
    "update txqueue.node_info set state = 'dead'",
    "delete from txqueue.work_type",
    "insert into txqueue.control (kind, key) values ('queue', 'mail')",
    "insert into txqueue.action (who, what, subject) values ('bob', 'pause', 'queue mail')",
    "delete from txqueue.request",
    "select nextval('txqueue.job_id')",
    "alter table txqueue.job add column more text",
    "drop table txqueue.job",
    "create table txqueue.mine (a int)",
    "create or replace function txqueue.backlog(queue text) returns bigint return 0",
    "truncate txqueue.job_done",
    "insert into txqueue.migration values (2, 'mine')",
]
READS = [
    "select * from txqueue.job",
    "select * from txqueue.job_ready_0",
    "select * from txqueue.node_info",
    "select * from txqueue.work_type",
    "select * from txqueue.setting",
    "select * from txqueue.control",
    "select * from txqueue.action",
    "select * from txqueue.schedule",
]
CLAIMS = [
    "select txqueue.next_job(1, 1, '{default}', '{test.kind}', 1, 1, 1, 1, 1)",
    "select txqueue.complete(1, '{0}', '{1}', '{\"{1}\"}')",
    "select txqueue.settle(1, '[]')",
    "select txqueue.release(1, '{}', false)",
    "select txqueue.heartbeat(1, 0)",
    "select txqueue.rotate()",
    "select txqueue.publish('[]')",
    "select txqueue.pause('queue', 'absent', 'ann')",
    "select txqueue.resume('queue', 'absent', 'ann')",
    "select txqueue.set_limit('queue', 'absent', null, null, null, null, null, 'ann', '{rate}')",
    "select txqueue.cancel('{}', 'ann')",
    "select txqueue.restart('{}', 'ann')",
    "select txqueue.retry('{}', 'ann')",
    "select txqueue.set_priority('{}', 1, 'ann')",
    "select txqueue.move('{}', 'mail', 'ann')",
    "select txqueue.reschedule('{}', now(), 'ann')",
    "select txqueue.edit('{}', '{}', 'ann')",
    "select txqueue.delete_jobs('{}', 'ann')",
    "select txqueue.due_schedules()",
    "select txqueue.tick('[]')",
    "select txqueue.publish_schedules('{}', '[]')",
]
INSIDE = [
    "select txqueue.promote(null, 1)",
    "select txqueue.grant_roles()",
    "select txqueue.assign_0(0::smallint, '{}', 1, 1, null, false)",
    "select txqueue.truncate_if_empty('job_ready_0')",
    "select txqueue.cancel_jobs('{}', '{}', '{}', true)",
    "select txqueue.lock_control('queue', 'absent')",
    "select txqueue.note_action('ann', 'pause', 'queue mail')",
    "select txqueue.start_cooldowns('{}')",
    "select txqueue.enqueue_runs('[]')",
]


def test_the_enqueue_role_only_enqueues(node: Master) -> None:
    """It sees no job, not even its own, and runs none."""
    with playing(node, "txqueue_enqueue"):
        assert node.value("select txqueue.enqueue('test.kind', '{}')") == 1
        assert node.enqueue({}, {}) == [2, 3]
        assert node.value("select txqueue.backlog('default')") == 3
        allowed = [sql for sql in READS + CHANGES + CLAIMS + INSIDE if not refused(node, sql)]
    assert allowed == []


def test_the_read_role_only_reads(node: Master) -> None:
    """It sees all there is and changes nothing."""
    node.enqueue({})
    with playing(node, "txqueue_read"):
        assert [sql for sql in READS if refused(node, sql)] == []
        assert node.value("select count(*) from txqueue.job") == 1
        allowed = [sql for sql in CHANGES + CLAIMS + INSIDE if not refused(node, sql)]
        assert refused(node, "select txqueue.enqueue('test.kind', '{}')")
    assert allowed == []


def test_the_worker_role_runs_jobs_and_alters_nothing(node: Master) -> None:
    """It does all that a node does, by the functions made for it."""
    with playing(node, "txqueue_worker"):
        node.enqueue({}, {}, {})
        chunks = node.claim(workers=3)
        assert node.complete(chunks[0]) == 1
        assert node.settle(chunks[1], "retry", delay=0) == chunks[1].ids
        assert node.release(chunks[2].assignment) == 1
        assert [sql for sql in READS + CLAIMS if refused(node, sql)] == []
        assert node.register("again") is not None
        node.value("select txqueue.ensure_history()")
        node.value("select txqueue.leave(%s, 'stopped')", node.incarnation)
        allowed = [sql for sql in CHANGES + INSIDE if not refused(node, sql)]
    assert allowed == []


def test_other_logins_have_no_rights(node: Master) -> None:
    """PostgreSQL's default rights of PUBLIC are revoked."""
    role = node.value("select 'nobody_' || pg_backend_pid()")
    node.cursor.execute(f"create role {role}")
    try:
        with playing(node, role):
            everything = ["select txqueue.enqueue('test.kind', '{}')", *READS, *CLAIMS, *INSIDE]
            assert [sql for sql in everything if not refused(node, sql)] == []
    finally:
        node.cursor.execute(f"drop role {role}")


@pytest.mark.usefixtures("node")
async def test_a_client_needs_no_more_than_the_enqueue_role(dsn: str) -> None:
    """An application's role connects and enqueues, and may not look at jobs."""
    queue = await WorkQueue.connect(make_dsn(dsn, options="-c role=txqueue_enqueue"))
    job_id = await queue.enqueue(Greeting("you"))
    assert [job_id + 1, job_id + 2] == await queue.enqueue_many([Greeting("a"), Greeting("b")])
    with pytest.raises(NotPermitted, match="permission denied"):
        await queue.job(job_id)
    await queue.close()


@pytest.fixture
def stranger(node: Master, dsn: str) -> Iterator[str]:
    """A DSN with a role without any right."""
    node.cursor.execute("create role roles_stranger login")
    yield make_dsn(dsn, user="roles_stranger")
    node.cursor.execute("drop role roles_stranger")


async def test_a_client_whose_role_may_not_use_the_schema(node: Master, stranger: str) -> None:
    """It gets an error of txqueue's, which names the grants."""
    with pytest.raises(NotPermitted, match="permission denied for schema") as caught:
        await WorkQueue.connect(stranger)
    assert "txqueue_enqueue for applications" in caught.value.remedy


def test_a_node_whose_role_is_not_a_worker(node: Master, stranger: str) -> None:
    """It does not start, and names the grant that is missing; a member's node may start."""
    with pytest.raises(NotPermitted):
        check_database(stranger)
    node.cursor.execute("grant txqueue_enqueue to roles_stranger")
    check_database(stranger)
    with pytest.raises(ConfigurationError, match=r"may not call txqueue\.complete") as caught:
        check_node_role(stranger)
    assert caught.value.remedy == "grant txqueue_worker to roles_stranger"
    node.cursor.execute("grant txqueue_worker to roles_stranger")
    check_node_role(stranger)
