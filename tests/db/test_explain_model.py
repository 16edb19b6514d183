"""What `explain` says, compared with what then happens, in many states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from os import environ
from typing import Any, Final

import pytest
from attrs import evolve

from tests.db.explained_future import claimed
from tests.db.explained_world import FAR, State, World, lies
from tests.fixtures.databases import Templates, fresh_database
from txqueue.node.workers.suspects import MOST_PROCESSES
from txqueue.policy.findings.reason import Gravity

# More worlds make a soak.
WORLDS, STATES = int(environ.get("EXPLAINED_WORLDS", "3")), 80


@pytest.fixture
def world(dsn18: str, templates: Templates) -> Iterator[World]:
    """A world without nodes and jobs, in a database of its own."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        yield World(dsn, 0)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_explanations_are_true(dsn18: str, templates: Templates, seed: int) -> None:
    """What needs no act runs by itself, what needs one does not, and what is next is claimed."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        assert list(islice(lies(World(dsn, seed).states(STATES)), 3)) == []


def blocked(world: World) -> None:
    """A job whose only node has a blocked worker."""
    world.node().each[0].becomes("blocked")
    world.put({})


def heavy(world: World) -> None:
    """A job for which threads of ended jobs leave too little of the only worker."""
    world.node().each[0].becomes("crowded")
    world.put({"weight": 3})


def locked_up(world: World) -> None:
    """A job whose only node has tried it, and lacks the key of its payload."""
    node = world.node()
    world.put({"work_type": "secret", "payload": {"key": "lost"}})
    claimed(world.session, node)


def keyless(world: World) -> None:
    """A job of a type that the only node defines, and has no key for."""
    world.node(kinds=["plain"], keyless=["secret"])
    world.put({"work_type": "secret"})


def unserved(world: World) -> None:
    """A job of a queue that no node serves."""
    world.node(["mail"])
    world.put({"queue": "shop"})


def unknown(world: World) -> None:
    """A job of a type that no node has ever had."""
    world.node()
    world.put({"work_type": "unknown"})


def suspects(world: World, state: str = "open") -> None:
    """One more suspect than there are processes for them, which are in some state."""
    node = world.node()
    world.put(*[{}] * (MOST_PROCESSES + 1))
    world.session.cursor.execute("update txqueue.job_ready set deaths = 3")
    while claimed(world.session, node):
        pass
    for worker in node.each:
        if worker.is_apart:
            world.turn(world.session, node, worker, state)


def locked(world: World) -> None:
    """A job whose row an open transaction has locked."""
    world.node()
    [job_id] = world.put({})
    other = world.session.beside()
    other.execute("select from txqueue.job where job_id = %s for update", (job_id,))
    # A shorter transaction is no reason to name.
    other.execute("select pg_sleep(1)")


def one_runs(world: World, jobs: Sequence[dict[str, Any]] = ({}, {}), capacity: int = 1) -> None:
    """Jobs of which a node has claimed as many as it may."""
    node = world.node(capacity=capacity)
    world.put(*jobs)
    claimed(world.session, node)


def stopped_later(world: World) -> None:
    """A job that waits for its time, and does not run then either."""
    world.node(["mail"])
    world.put({"not_before": FAR, "queue": "shop"})


def one_follows(world: World) -> None:
    """A job that waits for another one."""
    world.node()
    world.put({"after": world.put({})})


def limited(world: World, limit: str) -> None:
    """A queue with a limit, of which a node has claimed what it may."""
    world.session.value(f"select txqueue.set_limit('queue', 'mail', {limit}, 'ann')")
    one_runs(world, capacity=2)


def blocker_runs(world: World, limit: str) -> None:
    """Jobs of which one may run at a time, and that one blocks its worker, beside an idle one."""
    world.session.value(f"select txqueue.set_limit('queue', 'mail', {limit}, 'ann')")
    node = world.node(workers=2)
    world.put({}, {})
    claimed(world.session, node)
    [worker] = [each for each in node.regular if each.held]
    world.turn(world.session, node, worker, "blocked")


def paused(world: World, kind: str, key: str) -> None:
    """A job of what is paused."""
    world.node()
    world.session.value("select txqueue.pause(%s, %s, 'ann')", kind, key)
    world.put({"tenant": "t", "group": "g"})


def one_waits(world: World) -> None:
    """A job that waits for its moment, on an idle node."""
    world.node()
    world.put({"not_before": FAR})


def one_more(world: World, options: dict[str, Any]) -> None:
    """A job that runs, and one that has come since."""
    one_runs(world, [options], capacity=2)
    world.put(options)


def two_ready(world: World) -> None:
    """Two jobs, and room for one."""
    world.node(capacity=1)
    world.put({}, {})


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


GROUP: Final = {"group": "g"}
RESERVE: Final = "null, null, null::integer, null, 0.5"
RATE: Final = "null, 0.001, null::integer, null, null"
ONE: Final = "1, null, null::integer, null, null"
UNIQUE: Final = {"unique": "k", "unique_mode": "again"}
SCENES: Final[Sequence[tuple[Callable[[World], None], str, str]]] = (
    (blocked, "no_worker", "can start a job: of 1 worker 1 blocked"),
    (heavy, "no_worker", "of the weight of its workers, and its own is 3"),
    (unserved, "no_capable_node", "no live node serves the queue shop"),
    (unknown, "unknown_type", "no node has ever registered the work type unknown"),
    (keyless, "no_key", "no node that defines it (node-1) has TXQUEUE_PAYLOAD_KEY"),
    (locked_up, "no_key", "no live node has a key that it needs (tried by node-1)"),
    (suspects, "suspect", "run as many such processes as they may"),
    (partial(suspects, state="blocked"), "suspect", "all such processes (node-1) are kept by"),
    (partial(limited, limit=RATE), "rate", "the queue mail may start only 0.001 jobs a second"),
    (locked, "locked", "has locked the job's row"),
    (partial(one_more, options=GROUP), "group", "g is busy with job 1 on node node-1 since"),
    (partial(limited, limit=ONE), "limit", "mail runs as many jobs as its limit allows (1 job)"),
    (partial(blocker_runs, limit=ONE), "limit", "in workers that do not answer: job"),
    (one_runs, "no_free_capacity", "it is next, and the least loaded of 1 node is at 100%"),
    (two_ready, "no_free_capacity", "1 job goes first, and the nodes have room for a weight of 1"),
    (partial(limited, limit=RESERVE), "reserve", "keeps 50% of each node for priority 7 and up"),
    (stopped_later, "time", "; after that it does not run: no live node serves the queue shop"),
    (partial(paused, kind="queue", key="mail"), "pause", "the queue mail is paused"),
    (partial(paused, kind="tenant", key="t"), "pause", "the tenant t is paused"),
    (partial(paused, kind="group", key="g"), "pause", "the group g is paused"),
    (one_waits, "time", "it is not to start before 2100-01-01 00:00:00"),
    (one_follows, "parents", "it waits until these are done: 1 (ready)"),
    (partial(one_more, options=UNIQUE), "unique", "waits for job 1, which holds the same unique"),
)


@pytest.mark.parametrize(("arrange", "reason", "words"), SCENES)
def test_each_reason_is_told_and_true(
    arrange: Callable[[World], None], reason: str, words: str, world: World
) -> None:
    """Of the last job, in words; what then happens to all jobs is as they are explained."""
    arrange(world)
    state = world.state()
    assert list(lies([state])) == []
    told = state.jobs[-1].blocker()
    assert (told.reason, words in told.detail) == (reason, True), told


@pytest.mark.parametrize(
    ("kinds", "is_claimed", "has_ended", "said"),
    [
        (["plain"], False, True, "it is not claimed at once"),
        (["plain"], True, False, "it never runs without an act"),
        (["pair"], False, True, "it runs without any act"),
        (["pair"], True, False, "it is claimed at once"),
    ],
)
def test_an_untrue_explanation_is_found(
    world: World, kinds: list[str], said: str, *, is_claimed: bool, has_ended: bool
) -> None:
    """Of a job that the only node may take, and of one that it may not."""
    world.node(kinds=kinds)
    world.put({})
    [job] = world.state().jobs
    wrong = evolve(job, is_claimed=is_claimed, has_ended=has_ended)
    [lie] = lies([State([], [wrong])])
    assert f": {said}: " in lie
