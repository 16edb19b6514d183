"""What `explain` says, compared with what then happens, in many states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import pytest

from tests.db import explained_states
from tests.db.explained_future import claimed
from tests.db.explained_states import State, lies
from tests.db.explained_world import FAR, World
from tests.fixtures.databases import Templates, fresh_database
from txqueue.node.workers.suspects import MOST_PROCESSES
from txqueue.policy.findings import capacity, explanation, full_nodes, limits
from txqueue.policy.findings.explanation import judged
from txqueue.policy.findings.reason import Blocker, Gravity

WORLDS, STATES = 3, 80
Mutate = Callable[[pytest.MonkeyPatch], None]


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


def without(module: Any, name: str) -> Mutate:
    """Have nothing found by one function."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(module, name, lambda *_: iter(()))

    return mutate


def without_wait(reason: str) -> Mutate:
    """Have jobs that wait for something taken for ready ones."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setitem(explanation._WAITING_FOR, reason, explanation._ready)

    return mutate


def without_pauses_of(kind: str) -> Mutate:
    """Have the pauses and limits of one kind overlooked."""
    found = limits.held_back

    def mutate(patch: pytest.MonkeyPatch) -> None:
        def others(facts: Any, its: str) -> Iterator[Any]:
            return iter(()) if its == kind else found(facts, its)

        patch.setattr(limits, "held_back", others)

    return mutate


def believing(**facts: Any) -> Mutate:
    """Have each node believed to be otherwise than it is."""
    found = judged

    def mutate(patch: pytest.MonkeyPatch) -> None:
        def mistaken(its: Any) -> Any:
            nodes = [{**node, **facts} for node in its["nodes"]]
            return found({**its, "nodes": nodes, "is_published": True})

        patch.setattr(explained_states, "judged", mistaken)

    return mutate


def without_rates(patch: pytest.MonkeyPatch) -> None:
    """Have the rates of queues overlooked."""
    found = limits.held_back

    def others(facts: Any, kind: str) -> Iterator[Any]:
        return (each for each in found(facts, kind) if each.reason != "rate")

    patch.setattr(limits, "held_back", others)


def without_reserve(patch: pytest.MonkeyPatch) -> None:
    """Have the reserves of queues overlooked."""
    for module in (capacity, full_nodes):
        patch.setattr(module, "kept_weight", lambda *_: 0)


def with_room(patch: pytest.MonkeyPatch) -> None:
    """Have each node believed to have room for any job."""
    patch.setattr(full_nodes, "fits", lambda *_: True)


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


def one_runs(world: World, *jobs: dict[str, Any], capacity: int = 1) -> None:
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
    one_runs(world, {}, {}, capacity=2)


def blocker_runs(world: World, limit: str = "", **options: str) -> None:
    """Jobs of which one may run at a time, and that one blocks its worker, beside an idle one."""
    if limit:
        world.session.value(f"select txqueue.set_limit('queue', 'mail', {limit}, 'ann')")
    node = world.node(workers=2)
    world.put(options, options)
    claimed(world.session, node)
    [worker] = [each for each in node.regular if each.held]
    world.turn(world.session, node, worker, "blocked")


def paused(world: World, kind: str, key: str) -> None:
    """A job of what is paused."""
    world.node()
    world.session.value("select txqueue.pause(%s, %s, 'ann')", kind, key)
    world.put({"tenant": "t", "group": "g"})


def one_waits(world: World, **options: str) -> None:
    """A job that waits, on an idle node."""
    world.node()
    world.put(options)


def one_more(world: World, options: dict[str, Any]) -> None:
    """A job that runs, and one that has come since."""
    one_runs(world, options, capacity=2)
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
IN_TURN: Final = Blocker("limit", "", "")
UNIQUE: Final = {"unique": "k", "unique_mode": "again"}
MUTATIONS: Final[dict[str, tuple[Mutate, Callable[[World], None]]]] = {
    "no worker": (without(capacity, "without_worker"), blocked),
    "no capable node": (believing(serves=True), unserved),
    "unknown type": (believing(knows=True), unknown),
    "no key": (believing(knows=True, lacks_key=False), keyless),
    "a key that is lost": (believing(lacks_its_key=False), locked_up),
    "suspects before it": (without(full_nodes, "_suspect"), suspects),
    "blocked processes for suspects": (
        lambda patch: patch.setattr(full_nodes, "no_process_for_suspects", lambda *_: None),
        lambda world: suspects(world, state="blocked"),
    ),
    "rate": (without_rates, lambda world: limited(world, RATE)),
    "locked": (without(limits, "locked"), locked),
    "threads of ended jobs": (
        lambda patch: patch.setattr(capacity, "_too_heavy", lambda *_: None),
        heavy,
    ),
    "busy group": (without(limits, "behind_group"), lambda world: one_more(world, GROUP)),
    "a blocker that holds the limit": (
        lambda patch: patch.setattr(limits, "_held_by_silent", lambda *_: IN_TURN),
        lambda world: blocker_runs(world, ONE),
    ),
    "no room": (with_room, lambda world: one_runs(world, {}, {})),
    "jobs before it": (without(full_nodes, "_behind_others"), two_ready),
    "reserve": (without_reserve, lambda world: limited(world, RESERVE)),
    "limit": (without(limits, "_at_limit"), lambda world: limited(world, ONE)),
    "what stops it afterwards": (without(explanation, "_stops"), stopped_later),
    "paused queue": (without_pauses_of("queue"), lambda world: paused(world, "queue", "mail")),
    "paused tenant": (without_pauses_of("tenant"), lambda world: paused(world, "tenant", "t")),
    "paused group": (without_pauses_of("group"), lambda world: paused(world, "group", "g")),
    "time": (without_wait("time"), lambda world: one_waits(world, not_before=FAR)),
    "parents": (without_wait("parents"), one_follows),
    "unique": (without_wait("unique"), lambda world: one_more(world, UNIQUE)),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_an_overlooked_blocker_is_found(
    mutation: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison finds each of these faults of `explain`, and nothing without it."""
    mutate, arrange = MUTATIONS[mutation]
    arrange(world)
    state = world.state()
    assert list(lies([state])) == []
    mutate(monkeypatch)
    assert list(lies([state])) != []
