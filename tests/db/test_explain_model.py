"""What `explain` says, compared with what then happens, in many states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import pytest

from tests.db.explained_world import State, World, lies
from tests.fixtures.databases import Templates, fresh_database
from txqueue.policy.blockers import capacity, explanation, limits

WORLDS, STATES = 4, 130
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


MUTATIONS: Final[dict[str, Mutate]] = {
    "no_capable_node": without(explanation, "without_node"),
    "no_worker": without(explanation, "without_worker"),
    "busy group": without(explanation, "behind_group"),
    "no_free_capacity": with_room,
    "jobs that go first": without(capacity, "_behind_others"),
    "reserve": without_reserve,
    "limit": without(limits, "_at_limit"),
    "stopped jobs before it": without(explanation, "_roots"),
    "what stops it afterwards": without(explanation, "_stops"),
    "never": without(explanation, "_never"),
    **{f"a held {kind}": without_pauses_of(kind) for kind in ("queue", "tenant", "group")},
    **{each: without_wait(each) for each in ("time", "parents", "unique", "group")},
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_an_overlooked_blocker_is_found(
    mutation: str, states: list[State], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison would find each of these faults of `explain`."""
    MUTATIONS[mutation](monkeypatch)
    assert next(lies(states), None) is not None
