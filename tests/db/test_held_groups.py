"""Groups while an old snapshot keeps the rows of all jobs that have passed."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from tests.db.masters import Master
from tests.db.stored import Taken

pytestmark = pytest.mark.new_sessions

READ = (
    "select sum(idx_tup_read)::integer from pg_stat_user_indexes"
    " where indexrelname ~ '_group_' or relname = 'group_front'"
)
QUEUE_READ = (
    "select sum(idx_tup_read)::integer from pg_stat_user_indexes"
    " where indexrelname ~ '^job_ready_._queue_rank'"
)
GROUPS = 3
JOBS = 150


@pytest.fixture
def snapshot(dsn: str) -> Iterator[None]:
    """Hold a snapshot from before all jobs, and with it the lanes, so that rotation frees none."""
    with closing(psycopg2.connect(dsn)) as session:
        session.set_session(isolation_level="REPEATABLE READ")
        session.cursor().execute("select count(*) from txqueue.job")
        yield


def wave(node: Master, room: int) -> int:
    """Run jobs of a few groups, each in its order; returns how many index entries that read."""
    before = node.value(READ)
    ids = node.enqueue(*({"group": f"group-{number % GROUPS}"} for number in range(JOBS)))
    ran: list[int] = []
    while len(ran) < JOBS:
        for chunk in node.take(room, workers=room).chunks:
            ran += chunk.ids
            node.complete(chunk)
    node.value("select pg_stat_force_next_flush()")
    for its_ids in (ids[group::GROUPS] for group in range(GROUPS)):
        assert [job_id for job_id in ran if job_id in its_ids] == its_ids
    read: int = node.value(READ) - before
    return read


@pytest.mark.usefixtures("snapshot")
@pytest.mark.parametrize("room", [GROUPS, 10 * GROUPS], ids=["taken one by one", "parked"])
def test_waves_of_large_groups_read_the_same_each(room: int, node: Master) -> None:
    """The rows of the former waves are not read again for each job."""
    first, *others = [wave(node, room) for _ in range(4)]
    assert max(others) < first + 200 * JOBS, others


def freed_by(node: Master, chunk: Taken) -> tuple[str, int] | None:
    """Complete the jobs of a chunk; returns the place of the first job that this made ready."""
    node.cursor.execute(
        "select freed_rank, freed_job from txqueue.complete(%s, %s::smallint[], %s::bigint[], %s)",
        (node.incarnation, [chunk.lane], [chunk.assignment], [f"{{{chunk.ids[0]}}}"]),
    )
    [(rank, job_id)] = node.cursor.fetchall()
    return rank and (rank, job_id)


def wave_of_singles(node: Master) -> int:
    """Run jobs of a few groups in turn, each claim beginning at the job that an end made ready."""
    before = node.value(QUEUE_READ)
    ids = node.enqueue(*({"group": f"group-{number % GROUPS}"} for number in range(JOBS)))
    running = node.take(JOBS, workers=GROUPS).chunks
    ran = []
    while running:
        ran += running[0].ids
        if place := freed_by(node, running.pop(0)):
            running += node.take(1, reached=place).chunks
    node.value("select pg_stat_force_next_flush()")
    assert ran == ids
    read: int = node.value(QUEUE_READ) - before
    return read


@pytest.mark.usefixtures("snapshot")
def test_claims_that_begin_at_freed_jobs_read_none_of_the_former_waves(node: Master) -> None:
    """Only the first claim of a wave begins at the front, where all rows are that have passed."""
    first, *others = [wave_of_singles(node) for _ in range(4)]
    assert max(others) < first + 20 * JOBS, (first, others)


def test_a_job_that_ranks_before_the_noted_place_is_next(node: Master) -> None:
    """A new one of a higher priority, which is parked, or a parked one whose priority is raised."""
    *_, last = node.enqueue(*[{"group": "g"}] * 200)
    while not node.value("select count(*) from txqueue.group_front"):
        node.complete(node.take(2).chunks[0])
    (running,) = node.take(2).chunks
    (urgent,) = node.enqueue({"group": "g", "priority": 9})
    assert node.take(2).ids == []
    node.complete(running)
    (running,) = node.take(2).chunks
    assert running.ids == [urgent]
    node.value("select changed from txqueue.set_priority(%s, 9, 'me')", [last])
    node.complete(running)
    assert node.take(2).ids == [last]


def test_running_jobs_before_the_noted_place_count(node: Master) -> None:
    """However long ago they were assigned, no more jobs of a group run than may."""
    node.cursor.execute(
        "insert into txqueue.control (kind, key, concurrency) values ('group', 'g', 2)"
    )
    node.enqueue(*[{"group": "g"}] * 200)
    (long,) = node.take(1).chunks
    while not node.value("select count(*) from txqueue.group_front where job_id > 50"):
        node.complete(node.take(5).chunks[0])
    assert (len(node.take(5).ids), node.take(5).ids) == (1, [])
    node.complete(long)
    assert len(node.take(5).ids) == 1


def test_a_job_that_returns_goes_before_younger_ones(node: Master, other: Master) -> None:
    """Though its group's jobs were noted to begin behind it: it was assigned, and the next one."""
    node.publish("test.kind", policy={"group_limit": 2})
    first, second, *_ = node.enqueue({"group": "g", "queue": "mail"}, *[{"group": "g"}] * 3)
    assert node.take(queues=["mail"]).ids == [first]
    node.cursor.execute("delete from txqueue.group_front")
    # One that is too old is renewed for certain.
    node.cursor.execute(
        'insert into txqueue.group_front ("group", rank, job_id, assignment, noted_at, looked_at)'
        " values ('g', '-infinity', 0, 0, now(), now() - interval '2 s')"
    )
    assert other.take(weight=1).ids == [second]
    assert other.value("select job_id from txqueue.group_front") == second
    node.falls_silent()
    assert other.beats()
    # A node that does not serve the queue of the first one.
    assert other.take().ids == []
    assert other.take(queues=["mail"]).ids == [first]
