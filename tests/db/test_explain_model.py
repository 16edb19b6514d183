"""What `explain` says, compared with what then happens, in many states."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import pytest

from tests.db.explained_future import claimed
from tests.db.explained_states import State, lies
from tests.db.explained_world import World
from tests.fixtures.databases import Templates, fresh_database
from txqueue.policy.findings.reason import Gravity

WORLDS, STATES = 3, 80


@pytest.fixture(scope="module")
def states(dsn18: str, templates: Templates) -> list[State]:
    """Many states, and what happened next to the jobs of each."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        return [state for seed in range(WORLDS) for state in World(dsn, seed).states(STATES)]


@pytest.fixture
def world(dsn18: str, templates: Templates) -> Iterator[World]:
    """A world without nodes and jobs, in a database of its own."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        yield World(dsn, 0)


def test_explanations_are_true(states: list[State]) -> None:
    """What needs no act runs by itself, what needs one does not, and what is next is claimed."""
    assert list(islice(lies(states), 3)) == []


def test_a_worker_that_starts_is_no_hope_where_a_reserve_keeps_it(world: World) -> None:
    """A fault, as nothing but a repair of the stuck worker has the job run."""
    world.session.value(f"select txqueue.set_limit('queue', 'mail', {RESERVE}, 'ann')")
    node = world.node(workers=2)
    node.each[0].becomes("stuck")
    node.each[1].becomes("starting")
    world.put({})
    state = world.state()
    assert list(lies([state])) == []
    assert state.jobs[0].blocker().gravity is Gravity.FAULT


def test_a_token_may_go_to_a_job_on_a_node_that_passes_over_another(world: World) -> None:
    """A crowded node takes the light job: the heavy one before it is not said to be next."""
    world.session.value(f"select txqueue.set_limit('queue', 'mail', {RATE}, 'ann')")
    world.node(capacity=2).each[0].becomes("crowded")
    world.node(capacity=2)
    world.put({"weight": 2}, {})
    state = world.state()
    assert list(lies([state])) == []
    assert [job.is_claimed for job in state.jobs] == [False, True]


def test_a_heavy_job_that_does_not_fit_keeps_light_ones_behind_it(world: World) -> None:
    """They are not said to be next, though the sum of the nodes has room for all of them."""
    half = world.node(workers=2, capacity=2)
    world.node(capacity=4)
    world.put({}, {})
    claimed(world.session, half)
    world.put({"weight": 3}, {"weight": 2}, {})
    state = world.state()
    assert list(lies([state])) == []
    assert not state.jobs[-1].is_claimed


def test_a_reserve_is_kept_after_quick_jobs(world: World) -> None:
    """The real rooms of workers that have ended jobs quickly: five of ten places, and no more."""
    world.session.value(f"select txqueue.set_limit('queue', 'mail', {RESERVE}, 'ann')")
    node = world.node(capacity=10)
    node.each[0].rate = 100
    world.put(*[{}] * 9)
    assert len(claimed(world.session, node)) == 5
    state = world.state()
    assert list(lies([state])) == []
    assert [job.blocker().reason for job in state.jobs] == ["assigned"] * 5 + ["reserve"] * 4


def test_threads_of_ended_jobs_are_told_from_jobs(world: World) -> None:
    """Their weight is no room for others, and what keeps it is named."""
    node = world.node()
    node.each[0].becomes("crowded")
    world.put({})
    claimed(world.session, node)
    world.put({})
    state = world.state()
    assert list(lies([state])) == []
    told = state.jobs[-1].blocker()
    assert told.reason == "no_free_capacity"
    assert told.detail.endswith(
        "; on node node-1, threads that go on after the ends of job 1 keep 3 of the weight of 4"
    )


RESERVE: Final = "null, null, null::integer, null, 0.5"
RATE: Final = "null, 0.001, null::integer, null, null"
