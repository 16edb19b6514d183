"""A database that was set back: restored from a dump, or taken over by a standby that lagged."""

import psycopg2
import pytest

from tests.db.masters import Master, master

RESERVE = "select (txqueue.reserve_run(%s)).{}"
REGISTER = """select incarnation from txqueue.register_node(
    %s, 'host', 1, null, 10, 100, '{{default}}', '[]', '', null, reserved => %s{})"""


def set_back(node: Master) -> None:
    """Have no job, and all numbers as before the first, as in a dump from then."""
    node.cursor.execute("truncate txqueue.job")
    for sequence in ("job_id", "assignment", "incarnation"):
        node.cursor.execute(f"alter sequence txqueue.{sequence} restart")


def test_a_lost_job_does_not_complete_the_one_with_its_number(node: Master) -> None:
    """Job, assignment of the sequence and node are the same; the token is not."""
    set_back(node)
    [lost_id] = node.enqueue({})
    [lost] = node.claim()
    set_back(node)
    [new_id] = node.enqueue({})
    [new] = node.claim()
    assert (lost.ids, lost_id) == (new.ids, new_id)
    assert lost.assignment >> 22 == new.assignment >> 22
    assert node.complete(lost) == 0
    assert node.complete(new) == 1


def test_a_lost_job_of_open_credit_does_not_complete_the_one_with_its_number(node: Master) -> None:
    """Jobs that are assigned when they are enqueued have tokens of that kind, too."""
    taken = []
    for _ in range(2):
        set_back(node)
        node.value("select txqueue.grant_credit(%s, 10)", node.incarnation)
        job_id = node.value("select txqueue.enqueue('test.kind', '{}')")
        taken.append((job_id, *node.column("select assignment from txqueue.job_assigned")))
    (lost_id, lost), (new_id, new) = taken
    assert lost_id == new_id
    assert lost >> 22 == new >> 22
    assert lost != new


def test_a_restored_database_gives_no_incarnation_again(node: Master) -> None:
    """Neither to this node nor to another: a lost run may still write."""
    numbers = set()
    for _ in range(20):
        set_back(node)
        numbers.add(node.value(RESERVE.format("incarnation"), "other"))
    assert len(numbers) == 20
    assert min(numbers) >= 2**30


def test_each_heartbeat_is_counted(node: Master) -> None:
    """So that a node finds fewer than it has sent; a new run begins anew."""
    beat = "select beats from txqueue.heartbeat(%s, 0.0)"
    assert [node.value(beat, node.incarnation) for _ in range(3)] == [1, 2, 3]
    assert node.value("select (txqueue.heartbeat(0, 0.0)).beats") is None
    assert node.value(beat, node.register("node")[1]) == 1


def test_the_server_and_its_timeline_are_told_to_an_ordinary_owner(node: Master) -> None:
    """A role without special rights may read them, in the versions that are supported."""
    node.cursor.execute("create role ordinary_owner")
    try:
        node.cursor.execute("set role ordinary_owner")
        system = node.value("select (pg_control_system()).system_identifier")
        node.value("select pg_walfile_name(pg_current_wal_lsn())")
        node.cursor.execute("reset role")
        told = node.value("select (txqueue.heartbeat(%s, 0.0)).server", node.incarnation)
    finally:
        node.cursor.execute("reset role")
        node.cursor.execute("drop role ordinary_owner")
    assert told == f"{system}/00000001"


def test_a_late_registration_is_refused(node: Master, dsn: str) -> None:
    """It was given up and repeated; its incarnation is not smaller now, but what it replaces is."""
    late, former = (node.value(RESERVE.format(what), "node") for what in ("incarnation", "former"))
    assert former == node.incarnation
    with master(dsn, "node") as newer, pytest.raises(psycopg2.DatabaseError, match="newer"):
        newer.value(REGISTER.format(", its_former => %s"), "node", late, former)


def test_a_process_that_registers_again_has_not_killed_its_jobs(node: Master) -> None:
    """No death is counted, and no attempt, unless the process is another one."""
    deaths = []
    for died in ("false", "true"):
        node.enqueue({})
        node.claim()
        node.cursor.execute("update txqueue.job_assigned set started_at = now()")
        numbers = (node.value(RESERVE.format("incarnation"), "node"), node.incarnation)
        its_former = f", its_former => %s, former_died => {died}"
        node.incarnation = node.value(REGISTER.format(its_former), "node", *numbers)
        deaths += node.column("select deaths from txqueue.job_ready order by job_id")
        node.cursor.execute("truncate txqueue.job")
    assert deaths == [0, 1]
