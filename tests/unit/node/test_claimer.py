"""What a claim reports about the queue: whether ready jobs are left."""

from datetime import UTC, datetime
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.node.doubles import Workers, lease_of
from txqueue.model.assignment import Assignment
from txqueue.node import claimer
from txqueue.node.claimer import Claimer
from txqueue.node.heavy_jobs import HeavyJobLimit
from txqueue.node.peer_table import PeerTable
from txqueue.node.wakeups import Wakeups
from txqueue.policy.dispatch import FIRST_IDLE
from txqueue.store.functions import Claim

PLACE = "2030-01-01", 5
SEEN = datetime(2030, 1, 1, tzinfo=UTC)
TAKEN = [Assignment(1, 5, 0, 1, 1, "[]")]


class Harness:
    """A claimer, and a database that answers as the test says."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.asked_from: list[tuple[str, int] | None] = []
        self.looks: list[bool] = []
        clock = Clock()
        self.claimer = Claimer(
            clock,
            self,  # type: ignore[arg-type]
            lease=lease_of(),
            queues=["default"],
            work_types=["test"],
            workers=Workers(capacity=1_000),
            heavy_jobs=HeavyJobLimit(clock, PeerTable(clock), ["default"], ["test"]),
            lanes=self,
            listeners=[self],
            wakeups=Wakeups(clock),
        )

    def claimed(self, jobs: int) -> None:
        """Look at no lane."""

    def looked(self, *, has_backlog: bool) -> None:
        """Note whether jobs are left."""
        self.looks.append(has_backlog)

    async def release(self, *_: Any, **__: Any) -> int:
        """Take back what a stopped claimer has claimed."""
        return 0

    async def next_job(self, *_: Any, reached: tuple[str, int] | None, **__: Any) -> Claim:
        """Answer the next claim."""
        self.asked_from.append(reached)
        return self.claims.pop(0)


def claim(*taken: Assignment, reached: tuple[str, int] | None) -> Claim:
    """What a claim found, and where it stopped."""
    return Claim(list(taken), None, SEEN, reached)


@pytest.mark.parametrize(
    ("found", "is_left"),
    [
        (claim(reached=None), False),
        (claim(*TAKEN, reached=None), False),
        (claim(*TAKEN, reached=PLACE), True),
        (claim(reached=PLACE), True),
    ],
)
async def test_jobs_left_behind(found: Claim, is_left: bool) -> None:
    """By what was taken, or too heavy for the room."""
    harness = Harness()
    harness.claims = [found]
    await harness.claimer.step()
    assert harness.looks == [is_left]


async def test_a_look_at_a_part_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It began behind jobs that may have come in since; the next look is at all of them."""
    monkeypatch.setattr(claimer, "LOOK_BACK", float("inf"))
    harness = Harness()
    harness.claims = [claim(*TAKEN, reached=PLACE), claim(reached=None), claim(reached=None)]
    for _ in range(3):
        await harness.claimer.step()
    assert harness.asked_from == [None, PLACE, None]
    assert harness.looks == [True, False]


@pytest.mark.parametrize(
    ("jobs", "reached", "pause"),
    [(1, None, FIRST_IDLE), (1, PLACE, 0.0), (2, None, claimer.BREATH), (2, PLACE, 0.0)],
)
async def test_a_single_job_is_followed_by_no_claim(
    jobs: int, reached: tuple[str, int] | None, pause: float
) -> None:
    """If it was all there was; nor does the worker that has done with it ask for one."""
    harness = Harness()
    harness.claims = [claim(Assignment(1, 5, 0, jobs, jobs, "[]"), reached=reached)]
    assert await harness.claimer.step() == pause
    harness.claimer.room_made()
    waiting = Deferred.fromCoroutine(harness.claimer.alarm.wait(1.0))
    assert waiting.called == (pause != FIRST_IDLE)
    harness.claimer.alarm.ring()
    await waiting


async def test_pauses_grow_only_while_nothing_is_found() -> None:
    """A single job restarts them: its enqueue may have found the master awake."""
    harness = Harness()
    one = claim(Assignment(1, 5, 0, 1, 1, "[]"), reached=None)
    harness.claims = [claim(reached=None), claim(reached=None), one, claim(reached=None)]
    pauses = [await harness.claimer.step() for _ in range(4)]
    assert pauses == [FIRST_IDLE, 2 * FIRST_IDLE, FIRST_IDLE, 2 * FIRST_IDLE]
