"""Who may take a silent node's jobs, and when: after its lease, after asking, or upon proof."""

import json
from contextlib import closing

import psycopg2
import pytest

from tests.db.masters import Master

HOST = json.dumps({"host": "this boot, this space of processes"})
VOUCH = "select txqueue.renew_for_peer(%s, %s::int[])"
BURY = "select txqueue.declare_dead(%s, %s::int[])"
NEXT_END = "select next_end from txqueue.heartbeat(%s, 0)"
STATE = "select state from txqueue.node_info where incarnation = %s"
NEIGHBOURS = "select neighbours from txqueue.heartbeat(%s, 0, %s)"


def holds(node: Master, job_id: int) -> bool:
    """Whether a job is still assigned to a node."""
    row = node.job(job_id)
    return (row["state"], row["incarnation"]) == ("assigned", node.incarnation)


def taken(node: Master) -> int:
    """A job that the node holds."""
    (job_id,) = node.enqueue({})
    assert node.claimed_ids() == [job_id]
    return job_id


def state(node: Master) -> str:
    """The state of a node in NODE_INFO."""
    return str(node.value("select state from txqueue.node_info where node_id = %s", node.node_id))


@pytest.mark.parametrize("seconds", [9.0, 10.5])
def test_jobs_are_not_rescued_before_the_lease_and_its_margin(
    node: Master, other: Master, seconds: float
) -> None:
    """A node that cannot reach the database has a second to end what must not run twice."""
    job_id = taken(node)
    node.falls_silent(seconds)
    assert other.beats()
    assert holds(node, job_id)


def test_after_an_outage_the_first_to_come_back_takes_nothing(node: Master, other: Master) -> None:
    """The database was away for an hour: all are late alike, and all keep what they hold."""
    job_id, others = taken(node), taken(other)
    node.cursor.execute(
        "update txqueue.node_info set leased_at = 'epoch', heartbeat_at = now() - interval '1 hour'"
    )
    assert other.beats()
    assert holds(node, job_id)
    assert node.beats()
    assert holds(node, job_id)
    assert holds(other, others)


def test_a_node_that_has_just_come_takes_nothing_yet(node: Master, other: Master) -> None:
    """Nodes that were silent when it registered have one lease to send a heartbeat."""
    job_id = taken(node)
    node.falls_silent()
    node.cursor.execute(
        "update txqueue.node_info set leased_at = now() - interval '9 s' where node_id = %s",
        (other.node_id,),
    )
    assert other.beats()
    assert holds(node, job_id)


def test_a_heartbeat_says_when_the_next_lease_ends(node: Master, other: Master) -> None:
    """So that its jobs are rescued then, and not at the next beat."""
    node.falls_silent(4)
    assert 6.0 < other.value(NEXT_END, other.incarnation) <= 7.0
    other.cursor.execute("delete from txqueue.node_info where node_id = %s", (node.node_id,))
    assert other.value(NEXT_END, other.incarnation) is None


def test_a_node_that_may_not_rescue_yet_need_not_beat_early(node: Master, other: Master) -> None:
    """It has registered only now: the silent node has a lease from then on."""
    node.falls_silent()
    other.cursor.execute(
        "update txqueue.node_info set leased_at = now() where node_id = %s", (other.node_id,)
    )
    assert 10.0 < other.value(NEXT_END, other.incarnation) <= 11.0


def test_of_many_nodes_those_next_to_a_silent_one_beat_early(node: Master) -> None:
    """The others would all do so again and again while one of them rescues its jobs."""
    node.cursor.execute("delete from txqueue.node_info")
    circle = sorted(node.register(f"node-{number}")[1] for number in range(40))
    node.cursor.execute("update txqueue.node_info set leased_at = 'epoch'")
    silent = "update txqueue.node_info set heartbeat_at = 'epoch' where incarnation = %s"
    node.cursor.execute(silent, (circle[20],))
    ends = {each: node.value("select txqueue.first_end(%s)", each) for each in circle}
    assert [each for each in circle if ends[each] <= 0] == circle[12:20] + circle[21:29]
    # Each of these rescues, while of the others only about eight a round do.
    assert node.value(NEXT_END, circle[12]) > 0
    assert node.value(STATE, circle[20]) == "dead"


def test_a_heartbeat_tells_the_place_among_nodes_with_room_for_the_same_jobs(
    node: Master, other: Master, third: Master
) -> None:
    """By which each decides whether a notification wakes it."""
    place = "select array[place, places] from txqueue.heartbeat(%s, %s)"
    node, other, third = nodes = sorted((node, other, third), key=lambda each: each.incarnation)
    assert [each.value(place, each.incarnation, 0.5) for each in nodes] == [[0, 3], [1, 3], [2, 3]]
    assert node.value(place, node.incarnation, 1.0)[0] is None
    assert other.value(place, other.incarnation, 0.5) == [0, 2]
    other.cursor.execute(
        "update txqueue.node_info set queues = '{rare}' where node_id = %s", (other.node_id,)
    )
    assert other.value(place, other.incarnation, 0.5) == [0, 1]


def test_a_peer_renews_the_lease_of_a_node_that_answers(node: Master, other: Master) -> None:
    """It lives, and only cannot reach the database: it keeps its jobs."""
    job_id = taken(node)
    node.falls_silent()
    assert other.value(VOUCH, other.incarnation, [node.incarnation]) == [node.incarnation]
    assert other.beats()
    assert holds(node, job_id)


def test_a_node_whose_lease_a_peer_renewed_rescues_none_when_it_is_back(
    node: Master, other: Master, third: Master
) -> None:
    """It was away itself: those that are not back yet have their time from then on."""
    job_id = taken(node)
    away = (
        "update txqueue.node_info set heartbeat_at = {0}, leased_at = {0} where node_id = any (%s)"
    )
    away = away.format("now() - interval '60 s'")
    node.cursor.execute(away, ([node.node_id, other.node_id, third.node_id],))
    third.beats()
    assert third.value(VOUCH, third.incarnation, [other.incarnation]) == [other.incarnation]
    assert other.beats()
    assert holds(node, job_id)


def test_a_node_whose_lease_a_peer_renewed_gets_no_new_work(node: Master, other: Master) -> None:
    """It cannot reach the database, where that would be."""
    node.enqueue({})
    (chunk,) = node.claim()
    node.value(VOUCH, node.incarnation, [other.incarnation])
    passed = "select count(*) from txqueue.pass_on(%s, %s::bigint[], null, %s)"
    assert node.value(passed, node.incarnation, [chunk.assignment], other.incarnation) == 0
    assigned = "select assignment from txqueue.enqueue_assigned(%s, %s, 'test.kind', '{}')"
    assert node.value(assigned, other.node_id, other.incarnation) is None
    assert other.beats()
    assert node.value(passed, node.incarnation, [chunk.assignment], other.incarnation) == 1
    assert node.value(assigned, other.node_id, other.incarnation) is not None


def test_a_lease_is_not_kept_for_ever(node: Master, other: Master) -> None:
    """Six leases on, a node that does not reach the database is as good as dead."""
    job_id = taken(node)
    assert other.value(VOUCH, other.incarnation, [node.incarnation]) == [node.incarnation]
    node.falls_silent()
    node.cursor.execute(
        "update txqueue.node_info set vouched_at = now() - interval '61 s' where node_id = %s",
        (node.node_id,),
    )
    assert other.value(VOUCH, other.incarnation, [node.incarnation]) == []
    assert other.beats()
    assert other.claimed_ids() == [job_id]


def test_after_its_own_heartbeat_a_lease_can_be_renewed_by_peers_again(
    node: Master, other: Master
) -> None:
    """What counts is how long it has not spoken itself."""
    other.value(VOUCH, other.incarnation, [node.incarnation])
    asked = "select vouched_at is not null from txqueue.node_info where node_id = %s"
    assert node.value(asked, node.node_id)
    assert node.beats()
    assert not node.value(asked, node.node_id)


def test_the_lease_of_a_dead_node_is_not_renewed(node: Master, other: Master) -> None:
    """Who is dead stays dead: its jobs may run elsewhere."""
    node.falls_silent()
    assert other.beats()
    assert state(node) == "dead"
    assert other.value(VOUCH, other.incarnation, [node.incarnation]) == []


def test_who_has_no_lease_keeps_none(node: Master, other: Master) -> None:
    """It may itself be presumed dead."""
    other.falls_silent()
    assert other.value(VOUCH, other.incarnation, [node.incarnation]) == []


def test_a_neighbour_that_knows_of_an_end_rescues_at_once(node: Master, other: Master) -> None:
    """The process has ended, so the rescue does not wait for its lease; nodes of one host check
    that.
    """
    job_id = taken(node)
    assert node.value(NEIGHBOURS, node.incarnation, HOST) == []
    assert other.value(NEIGHBOURS, other.incarnation, HOST) == [[node.incarnation, 1]]
    assert other.value(BURY, other.incarnation, [node.incarnation]) == 1
    assert other.claimed_ids() == [job_id]
    assert state(node) == "dead"
    assert not node.beats()


@pytest.mark.parametrize(
    ("its", "ours"), [("{}", "{}"), (HOST, '{"host": "elsewhere"}'), ('{"host": null}', "{}")]
)
def test_a_node_of_another_host_proves_nothing(
    node: Master, other: Master, its: str, ours: str
) -> None:
    """Nor one whose host is not known."""
    job_id = taken(node)
    node.value(NEIGHBOURS, node.incarnation, its)
    assert other.value(NEIGHBOURS, other.incarnation, ours) == []
    assert other.value(BURY, other.incarnation, [node.incarnation]) == 0
    assert holds(node, job_id)


def test_what_a_stopped_node_takes_at_the_last_moment_is_given_back(
    node: Master, other: Master
) -> None:
    """Its claim was under way, and is committed after it has said that it stops."""
    (job_id,) = node.enqueue({})
    other.connection.autocommit = False
    assert other.claimed_ids() == [job_id]
    node.value("select txqueue.leave(%s, 'stopped')", other.incarnation)
    other.connection.commit()
    assert holds(other, job_id)
    node.beats()
    assert node.claimed_ids() == [job_id]


def test_a_node_with_many_jobs_is_rescued_in_parts(node: Master, other: Master) -> None:
    """Each heartbeat gives some thousands back, and is followed by the next at once."""
    node.enqueue(*[{"group": f"g{n}"} for n in range(6_000)])
    while node.claim(6_000):
        pass
    node.falls_silent()
    assert other.value(NEXT_END, other.incarnation) == 0
    assert other.states() == {"ready": 5_000, "assigned": 1_000}
    assert other.value(NEXT_END, other.incarnation) != 0
    assert other.states() == {"ready": 6_000}


@pytest.mark.parametrize("group", [None, "g"])
def test_a_completion_that_is_not_committed_holds_up_no_rescue(
    node: Master, other: Master, group: str | None, dsn: str
) -> None:
    """Its worker was stopped in between: its job waits for it, the node's others do not."""
    job_id, *others = node.enqueue({"group": group}, {}, {"group": "another"})
    [taken] = node.claim()
    with closing(psycopg2.connect(dsn)) as stopped, stopped.cursor() as cursor:
        complete = "select txqueue.complete_one(%s, %s, %s, null)"
        cursor.execute(complete, (node.incarnation, taken.assignment, job_id))
        node.falls_silent()
        other.cursor.execute("set lock_timeout = '5s'")
        assert other.beats()
        assert state(node) == "dead"
        assert sorted(other.ready()) == others
        stopped.rollback()
    assert other.beats()
    assert sorted(other.ready()) == [job_id, *others]


def test_a_lock_that_a_rescue_needs_costs_no_lease(node: Master, other: Master, dsn: str) -> None:
    """The rescuer's own heartbeat counts; it rescues at the next."""
    job_id = taken(node)
    node.falls_silent()
    with closing(psycopg2.connect(dsn)) as stopped, stopped.cursor() as cursor:
        cursor.execute("lock table txqueue.job_ready in exclusive mode")
        other.cursor.execute("update txqueue.node_info set leased_at = 'epoch'")
        assert other.beats()
        assert holds(node, job_id)
        stopped.rollback()
    assert other.beats()
    assert not holds(node, job_id)


def test_a_transaction_that_has_completed_its_job_is_to_commit_soon(node: Master, dsn: str) -> None:
    """The server ends one that does not: it holds what others wait for."""
    [job_id] = node.enqueue({})
    [taken] = node.claim()
    with closing(psycopg2.connect(dsn)) as worker, worker.cursor() as cursor:
        complete = "select txqueue.complete_one(%s, %s, %s, null)"
        cursor.execute(complete, (node.incarnation, taken.assignment, job_id))
        cursor.execute("show idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("30s",)
        worker.rollback()


def test_nodes_that_ended_before_all_that_is_kept_are_forgotten(
    node: Master, other: Master, third: Master
) -> None:
    """What history names stays; so does one that has jobs, or lives, however silent."""
    end = "update txqueue.node_info set state = 'stopped', ended_at = now() - %s::interval"
    node.cursor.execute(f"{end} where node_id = %s", ("40 days", other.node_id))
    node.cursor.execute(f"{end} where node_id = %s", ("20 days", third.node_id))
    node.value("select txqueue.ensure_history()::text")
    names = node.column("select name from txqueue.node_info order by 1")
    assert names == ["node", "third"]


def test_a_heartbeat_tells_how_many_jobs_it_rescued(node: Master, other: Master) -> None:
    """Those of all dead nodes; the next one finds none."""
    taken(node)
    node.falls_silent()
    asked = "select rescued from txqueue.heartbeat(%s, 0)"
    assert other.value(asked, other.incarnation) == 1
    assert other.value(asked, other.incarnation) == 0
