"""What `explain` says, compared with what then happens, in many states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import pytest

from tests.db.explained_future import claimed
from tests.db.explained_world import FAR, State, World, lies
from tests.fixtures.databases import Templates, fresh_database
from txqueue.policy.blockers import capacity, explanation, limits

WORLDS, STATES = 3, 120
Mutate = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def states(dsn18: str, templates: Templates) -> list[State]:
    """Many states, and what happened next to the jobs of each."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        return [state for seed in range(WORLDS) for state in World(dsn, seed).states(STATES)]


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

        patch.setattr(explanation, "held_back", others)

    return mutate


def without_reserve(patch: pytest.MonkeyPatch) -> None:
    """Have the reserves of queues overlooked."""
    patch.setattr(capacity, "_kept", lambda *_: 0)


def with_room(patch: pytest.MonkeyPatch) -> None:
    """Have each node believed to have room for any job."""
    patch.setattr(capacity, "_fits", lambda *_: True)


def blocked(world: World) -> None:
    """A job whose only node has a blocked worker."""
    world.node().each[0].becomes("blocked")
    world.put({})


def one_runs(world: World, *jobs: dict[str, Any], capacity: int = 1) -> None:
    """Jobs of which a node has claimed as many as it may."""
    node = world.node(capacity=capacity)
    world.put(*jobs)
    claimed(world.session, node)


def stopped_first(world: World) -> None:
    """A job whose group has another job before it, in a queue that no node serves."""
    world.node(["mail"])
    world.put({"queue": "shop", "group": "g"}, {"group": "g"})


def stopped_later(world: World, **options: str) -> None:
    """A job that waits for another one, and does not run after that either."""
    world.node(["mail"])
    [parent] = world.put({})
    world.put({"after": [parent], **options})


def limited(world: World, limit: str) -> None:
    """A queue with a limit, of which a node has claimed what it may."""
    world.session.value(f"select txqueue.set_limit('queue', 'mail', {limit}, 'ann')")
    one_runs(world, {}, {}, capacity=2)


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


GROUP: Final = {"group": "g"}
RESERVE: Final = "null, null, null::integer, null, 0.5"
ONE: Final = "1, null, null::integer, null, null"
UNIQUE: Final = {"unique": "k", "unique_mode": "again"}
MUTATIONS: Final[dict[str, tuple[Mutate, Callable[[World], None]]]] = {
    "no worker": (without(explanation, "without_worker"), blocked),
    "busy group": (without(explanation, "behind_group"), lambda world: one_more(world, GROUP)),
    "no room": (with_room, lambda world: one_runs(world, {}, {})),
    "jobs before it": (without(capacity, "_behind_others"), two_ready),
    "reserve": (without_reserve, lambda world: limited(world, RESERVE)),
    "limit": (without(limits, "_at_limit"), lambda world: limited(world, ONE)),
    "stopped jobs before it": (without(explanation, "_roots"), stopped_first),
    "what stops it afterwards": (
        without(explanation, "_stops"),
        lambda world: stopped_later(world, queue="shop"),
    ),
    "never": (
        without(explanation, "_never"),
        lambda world: stopped_later(world, not_before="infinity"),
    ),
    "paused queue": (without_pauses_of("queue"), lambda world: paused(world, "queue", "mail")),
    "paused tenant": (without_pauses_of("tenant"), lambda world: paused(world, "tenant", "t")),
    "paused group": (without_pauses_of("group"), lambda world: paused(world, "group", "g")),
    "time": (without_wait("time"), lambda world: one_waits(world, not_before=FAR)),
    "parents": (without_wait("parents"), stopped_later),
    "unique": (without_wait("unique"), lambda world: one_more(world, UNIQUE)),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_an_overlooked_blocker_is_found(
    mutation: str, dsn18: str, templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison finds each of these faults of `explain`, and nothing without it."""
    mutate, arrange = MUTATIONS[mutation]
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        world = World(dsn, 0)
        arrange(world)
        state = world.state()
    assert list(lies([state])) == []
    mutate(monkeypatch)
    assert list(lies([state])) != []
