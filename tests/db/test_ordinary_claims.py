"""What `claim_ready()` takes for a master that was just woken, and completions one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.db.masters import Master, emptied
from tests.db.stored import Stored

NOT_ORDINARY: dict[str, dict[str, Any]] = {
    "in a group": {"group": "a"},
    "of a tenant": {"tenant": "a"},
    "heavy": {"weight": 2},
    "large": {"payload": {"text": "".join(map(chr, range(0x3000, 0x3800)))}},
}


def declined(node: Master) -> bool:
    """Whether the jobs are left to `next_job()`, which then takes one."""
    return node.take_ordinary() is None and len(node.take().ids) == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["default", "mail", "elsewhere"])),
        min_size=1,
        max_size=8,
    )
)
def test_it_takes_the_queue_of_the_first_job_in_rank_order(
    node: Master, wanted: list[tuple[int, str]]
) -> None:
    """And leaves the rest in its place."""
    emptied(node)
    node.enqueue(*({"priority": priority, "queue": queue} for priority, queue in wanted))
    while True:
        node.cursor.execute(
            "select job_id, queue from txqueue.job_ready where queue in ('default', 'mail')"
            " order by rank, job_id"
        )
        left = node.cursor.fetchall()
        taken = node.take_ordinary(3, ["default", "mail"])
        assert taken == [job_id for job_id, queue in left if queue == left[0][1]][:3]
        if not taken:
            break


def test_its_chunk_is_like_one_of_next_job(node: Master) -> None:
    """A worker reads the same of a job, and the same is stored."""
    node.enqueue(*[{"not_after": "2100-01-01", "options": {"attempts": 3}}] * 2)
    [one] = node.take(1).chunks[0].jobs
    [other] = node.take_ordinary() or []
    shared = "to_jsonb(job) - '{job_id, assignment, assigned_at}'::text[]"
    assert node.column(f"select count(*) from txqueue.job_assigned as job group by {shared}") == [2]
    assert other == one.job_id + 1


@pytest.mark.parametrize("kind", NOT_ORDINARY)
def test_other_jobs_are_left_to_the_full_claim(node: Master, kind: str) -> None:
    """It takes nothing then, not even the ordinary jobs after them."""
    node.enqueue({**NOT_ORDINARY[kind], "priority": 9})
    assert declined(node)


def test_suspects_are_left_to_the_full_claim(node: Master) -> None:
    """They get a process without other jobs."""
    [job_id] = node.enqueue({})
    node.cursor.execute("update txqueue.job_ready set deaths = 2 where job_id = %s", (job_id,))
    assert declined(node)


def test_nothing_is_taken_past_a_limit_or_a_pause(node: Master) -> None:
    """Nor of any other queue: the full claim counts them."""
    node.enqueue({})
    node.value("select txqueue.pause('queue', 'other', 'tests')")
    assert declined(node)


def test_late_ends_are_left_to_the_full_claim(node: Master) -> None:
    """It processes them first."""
    node.enqueue({})
    node.value("select setval('txqueue.has_late_ends', 1)")
    assert declined(node)


def test_a_claim_that_finds_nothing_declines_nothing(node: Master) -> None:
    """The caller need not look again at once."""
    assert node.take_ordinary() == []


@pytest.mark.parametrize("state", ["draining", "dead"])
def test_a_node_that_is_not_alive_gets_nothing(node: Master, state: str) -> None:
    """Its jobs stay ready."""
    [job_id] = node.enqueue({})
    node.cursor.execute("update txqueue.node_info set state = %s", (state,))
    assert node.take_ordinary() == []
    assert node.ready() == [job_id]


def test_a_job_that_another_master_is_claiming_is_skipped(node: Master, other: Master) -> None:
    """Without waiting for the other transaction."""
    first, second = node.enqueue({}, {})
    other.connection.autocommit = False
    assert other.take_ordinary(1) == [first]
    assert node.take_ordinary(1) == [second]
    other.connection.rollback()
    assert node.take_ordinary() == [first]


def test_jobs_of_other_lanes_are_left_to_the_full_claim(node: Master) -> None:
    """Rotation moves on to another lane while they are ready."""
    node.lane_is(3)
    old = node.enqueue({})
    node.lane_is(4)
    new = node.enqueue({})
    assert node.take_ordinary() == new
    assert node.take().ids == old


def stored(node: Stored) -> list[tuple[int, Any]]:
    """The jobs that are done, and their results."""
    node.cursor.execute("select job_id, result from txqueue.job_done order by job_id")
    return node.cursor.fetchall()


def complete(node: Master, *finished: tuple[int, int, str, str | None]) -> tuple[int, bool]:
    """Call `complete()` with lanes, assignments, ids and results."""
    node.cursor.execute(
        "select total, freed from txqueue.complete(%s, %s::smallint[], %s::bigint[], %s::text[],"
        " %s::text[])",
        (node.incarnation, *(list(each) for each in zip(*finished, strict=True))),
    )
    [(total, freed)] = node.cursor.fetchall()
    return total, freed


def test_jobs_claimed_one_by_one_are_completed_together(node: Master) -> None:
    """Each with its own result, under its own token."""
    ids = node.enqueue({}, {}, {}, {})
    chunks = [node.take(1).chunks[0] for _ in ids]
    results = [None, f'{{"{ids[1]}": {{"n": 1}}, "{ids[0]}": 5}}', None, None]
    finished = [
        (each.lane, each.assignment, f"{{{each.ids[0]}}}", result)
        for each, result in zip(chunks, results, strict=True)
    ]
    # The last job has the token of another.
    finished[3] = (*finished[1][:2], *finished[3][2:])
    assert complete(node, *finished) == (3, False)
    assert stored(node) == [(ids[0], None), (ids[1], {"n": 1}), (ids[2], None)]


def test_those_that_rotation_moved_are_found_among_them(node: Master) -> None:
    """Each once, whatever else the call names."""
    ids = node.enqueue({}, {})
    chunks = [node.take(1).chunks[0] for _ in ids]
    node.cursor.execute("update txqueue.job set lane = 5 where job_id = %s", (ids[1],))
    finished = [(each.lane, each.assignment, f"{{{each.ids[0]}}}", None) for each in chunks]
    assert complete(node, *finished) == (2, False)
    assert complete(node, *finished) == (0, False)


def test_the_next_of_their_groups_become_ready(node: Master) -> None:
    """As after a completion of its own."""
    first = node.enqueue({"group": "a"}, {"group": "b"})
    node.enqueue({"group": "a"}, {"group": "b"})
    chunks = [node.take(1).chunks[0] for _ in first]
    # The claim that meets the others parks them.
    assert node.take().chunks == []
    assert node.ready() == []
    finished = [(each.lane, each.assignment, f"{{{each.ids[0]}}}", None) for each in chunks]
    assert complete(node, *finished) == (2, True)
    assert len(node.ready()) == 2


@pytest.mark.parametrize("ids", ["{}", "{1,NULL}", "{NULL}"])
def test_an_assignment_without_jobs_hinders_no_other(node: Master, ids: str) -> None:
    """All of its jobs may have been given back."""
    [job_id] = node.enqueue({})
    chunk = node.take(1).chunks[0]
    one = (chunk.lane, chunk.assignment, f"{{{job_id}}}", None)
    assert complete(node, (0, 10**9, ids, None), one) == (1, False)
