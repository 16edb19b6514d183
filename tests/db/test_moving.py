"""Jobs that rotation moves to another lane just as another session changes them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.db.masters import Master, master
from tests.db.stored import Taken

MOVE = "select txqueue.move_stragglers(%s, %s::smallint, 5::smallint, 10)"
BLOCKED = """select count(*) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'"""
LIMIT = 30.0


@pytest.fixture
def mover(dsn: str) -> Iterator[Master]:
    """A session that moves jobs, and has not committed it until the test does."""
    with master(dsn, "mover") as session:
        session.connection.autocommit = False
        yield session


def parked(node: Master) -> None:
    """Wait until a session waits for a lock."""
    node.value(
        f"do $$ begin for turn in 1 .. 3000 loop exit when ({BLOCKED}) > 0;"
        " perform pg_sleep(0.01); perform pg_stat_clear_snapshot(); end loop; end $$; select 1"
    )
    assert node.value(BLOCKED) == 1


def part(node: Master, chunk: Taken) -> bool:
    """Ask as a job of a workset asks whether it still is this assignment's."""
    return bool(
        node.value(
            "select held from txqueue.next_part(%s, %s, %s, 'none')",
            *(node.incarnation, chunk.assignment, chunk.ids[0]),
        )
    )


ENDS: dict[str, Callable[[Master, Taken], object]] = {
    "completed": lambda node, chunk: node.complete(chunk) == 1,
    "settled": lambda node, chunk: node.settle(chunk, "retry", delay=60.0) == chunk.ids,
    "given back": lambda node, chunk: node.release(chunk.assignment) == 1,
    "of a workset": part,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_session_that_meets_a_moving_job_finds_it_in_its_new_place(
    end: Callable[[Master, Taken], bool], node: Master, other: Master, mover: Master
) -> None:
    """No outcome is lost, as it would not be sent again."""
    node.enqueue({})
    (chunk,) = node.claim()
    assert mover.value(MOVE, "assigned", chunk.lane) == 1
    with ThreadPoolExecutor(1) as thread:
        ending = thread.submit(end, node, chunk)
        parked(other)
        mover.connection.commit()
        assert ending.result(LIMIT)


SEARCHED = """select coalesce(sum(calls), 0)::integer from pg_stat_xact_user_functions
    where funcname ~ '^complete_in_'"""


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_completion_searches_no_lane_in_vain(is_moved: bool, node: Master) -> None:
    """Jobs that were returned to the queue are in none, and moved ones in one other."""
    node.enqueue({}, {})
    (chunk,) = node.claim()
    if is_moved:
        assert node.value(MOVE, "assigned", chunk.lane) == 2
    else:
        assert node.release(chunk.assignment) == 2
    node.cursor.execute("set track_functions = 'pl'")
    node.connection.autocommit = False
    assert node.complete(chunk) == (2 if is_moved else 0)
    assert node.value(SEARCHED) == (2 if is_moved else 1)
    node.connection.rollback()


def test_rotation_does_not_wait_for_a_lane_in_use(node: Master, mover: Master) -> None:
    """Its jobs are moved another time."""
    node.enqueue({})
    (chunk,) = node.claim()
    node.connection.autocommit = False
    node.complete(chunk)
    assert mover.value(MOVE, "assigned", chunk.lane) == 0
    node.connection.rollback()
    assert mover.value(MOVE, "assigned", chunk.lane) == 1


def test_a_parked_job_that_is_marked_concurrently_is_freed(
    node: Master, other: Master, mover: Master
) -> None:
    """No session waits for the one that marks it; a heartbeat makes it ready afterwards."""
    first, second = node.enqueue({"group": "g"}, {"group": "g"})
    (chunk,) = node.claim()
    assert (chunk.ids, node.waiting("group")) == ([first], [second])
    mover.cursor.execute("update txqueue.job set followed = 1 where job_id = %s", (second,))
    node.cursor.execute("set lock_timeout = '1s'")
    assert node.complete(chunk) == 1
    assert other.beats()
    assert node.claimed_ids() == []
    mover.connection.commit()
    assert other.beats()
    assert node.claimed_ids() == [second]


@pytest.mark.parametrize("kept", ["front", "end", "both", "none"])
def test_rows_of_a_lane_are_counted_wherever_they_lie(kept: str, node: Master) -> None:
    """Rotation looks at the last pages first, and must not take a lane for empty by these."""
    node.lane_is(0)
    ids = node.enqueue(*[{} for _ in range(6000)])
    left = {"front": ids[:3], "end": ids[-3:], "both": ids[:2] + ids[-1:], "none": []}[kept]
    node.cursor.execute("delete from txqueue.job_ready where job_id <> all (%s::bigint[])", (left,))
    for most in (1, 2, 5):
        assert node.value("select txqueue.count_lane_rows('job_ready_0', %s)", most) == min(
            most, len(left)
        )
