"""A node's place in NODE_INFO when answers of the database get lost."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.fixtures.leftovers import LoggedFailures
from tests.unit.node.doubles import Loop, Workers, fake, is_rung
from txqueue.errors import DatabaseUnavailable
from txqueue.model.assignment import JobKey
from txqueue.node.leasing.heartbeats import Heartbeats, LeaseKeeper
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Wakeups
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.run_functions import HeartbeatReply

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@define
class Database:
    """Registers runs of the one node; it may do so and not answer."""

    incarnation: int = 0
    is_buried: bool = False
    loses_answers: bool = False
    state: str = "alive"
    rescued: int = 0
    replaced: int | None = None
    beats: int = 0
    server: str = "1/1"
    jobs: dict[int, list[int]] = field(factory=dict)
    since: list[datetime | None] = field(factory=list)
    checks: int = 0

    async def advance_sequences(self) -> list[str]:
        """Set those that are behind."""
        self.checks += 1
        return ["job_id"]

    async def register_node(
        self, _: object, __: object, since: datetime | None
    ) -> tuple[int, int, datetime]:
        """Register a run."""
        self.replaced, self.incarnation = self.incarnation or None, self.incarnation + 1
        self.is_buried = False
        self.beats = 0
        self.since.append(since)
        if self.loses_answers:
            raise DatabaseUnavailable("the connection was lost")
        return 1, self.incarnation, BEGAN + timedelta(seconds=self.incarnation)

    async def heartbeat(self, incarnation: int, *_: object) -> HeartbeatReply:
        """Renew the lease of the newest run."""
        self.beats += 1
        return HeartbeatReply(
            incarnation == self.incarnation and not self.is_buried,
            self.state,
            [],
            [],
            rescued=self.rescued,
            beats=self.beats,
            server=self.server,
        )

    async def leave(self, incarnation: int, state: str) -> int:
        """Set the state of the newest run."""
        assert incarnation == self.incarnation
        self.state = state
        return 0

    async def replaced_by(self, name: str) -> int | None:
        """Return the run before the newest."""
        return self.replaced

    async def jobs_of(self, incarnation: int, assignments: Sequence[int]) -> list[JobKey]:
        """Return the jobs of the assignments that there are."""
        return [JobKey(each, job_id) for each in assignments for job_id in self.jobs.get(each, ())]


class Around:
    """Heartbeats, and the services that they notify."""

    load = 0.0

    def __init__(self) -> None:
        clock = Clock()
        self.database = Database()
        self.lease = Lease(10.0)
        self.loop = Loop()
        self.lifecycle = Lifecycle(fake(self.loop))
        self.wakeups = Wakeups(clock)
        self.told: list[str] = []
        self.workers = Workers()
        self.meters = Meters()
        self.heartbeats = Heartbeats(
            clock,
            cast("StoredFunctions", self.database),
            node={"name": "n1"},
            work_types=[],
            host="h",
            lease=self.lease,
            workers=fake(self.workers),
            keeper=LeaseKeeper(
                clock, self.lease, workers=fake(self), credits=fake(self), wakeups=self.wakeups
            ),
            lifecycle=self.lifecycle,
            load_meter=fake(self),
            meters=self.meters,
            listeners=[self],
            processes=fake(self),
            wakeups=self.wakeups,
        )

    def measured(self) -> dict[str, object]:
        """Say nothing of the node."""
        return {}

    def on_heartbeat(self, beat: HeartbeatReply) -> None:
        """Note that a heartbeat was answered."""
        self.told.append(f"heard {beat.state}")

    def renew(self, until: float, incarnation: int) -> None:
        """Note that the workers may start a run's jobs."""
        assert until == self.lease.until
        self.told.append(f"renewed {incarnation}")

    def review(self) -> None:
        """No client has credit."""

    def give_back(self) -> None:
        """Note that the workers give back what they hold."""
        self.told.append("given back")

    def stop_at_once(self) -> None:
        """Note that the processes end."""
        self.told.append("stopped at once")

    def step(self) -> None:
        """Take one step."""
        ended: list[Any] = []
        Deferred.fromCoroutine(self.heartbeats.step()).addBoth(ended.append)
        if hasattr(ended[0], "raiseException"):
            ended[0].raiseException()


def test_a_run_is_registered_and_then_renewed() -> None:
    """What may claim is woken once."""
    around = Around()
    around.step()
    assert is_rung(around.wakeups.claimer)
    around.step()
    assert not is_rung(around.wakeups.claimer)
    assert around.told == ["renewed 1", "renewed 1", "heard alive"]
    assert around.lease.identity == (1, 1)


def test_a_run_whose_own_registration_was_not_answered_is_not_replaced() -> None:
    """The newer run that it finds under its name is its own: it registers once more."""
    around = Around()
    around.step()
    around.database.is_buried = around.database.loses_answers = True
    with pytest.raises(DatabaseUnavailable):
        around.step()
    around.database.loses_answers = False
    around.step()
    around.step()
    assert around.told == ["renewed 1", "given back", "renewed 3", "renewed 3", "heard alive"]
    assert around.lease.identity == (1, 3)


@pytest.mark.parametrize("is_ending", [False, True])
def test_a_run_whose_name_another_has_taken_stops(
    is_ending: bool, logged_failures: LoggedFailures
) -> None:
    """It says so, registers no more, and has failed unless it was ending anyway."""
    around = Around()
    around.step()
    around.database.replaced, around.database.incarnation = 1, 2
    if is_ending:
        around.lifecycle.end()
    around.step()
    ended = [] if is_ending else ["stopped at once"]
    assert around.told == ["renewed 1", "given back", *ended]
    assert (around.lifecycle.has_failed, around.loop.stops) == (not is_ending, not is_ending)
    assert around.database.incarnation == 2
    assert "another node runs under the name n1" in logged_failures.complaints()[0]
    logged_failures.events.clear()


def test_a_name_with_an_earlier_run_is_registered_again() -> None:
    """A database that was restored from a dump has the run before this one under the name."""
    around = Around()
    around.database.incarnation = 5
    around.step()
    around.database.incarnation, around.database.replaced = 5, 4
    around.step()
    assert around.told == ["renewed 6", "given back", "renewed 6"]
    assert not around.lifecycle.has_failed


def test_a_database_that_has_lost_heartbeats_has_lost_the_run() -> None:
    """The node registers anew, drops what it holds, and counts no death of its workers."""
    around = Around()
    around.step()
    for _ in range(3):
        around.step()
    around.database.beats = 1
    around.step()
    around.step()
    assert around.told[-4:] == ["given back", "renewed 2", "renewed 2", "heard alive"]
    assert around.lease.identity == (1, 2)
    assert around.database.since == [None, BEGAN + timedelta(seconds=1)]


@pytest.mark.parametrize(
    ("kept", "incarnation"), [({3: [30], 4: [40]}, 1), ({3: [30]}, 2), ({}, 2)]
)
def test_a_promoted_standby_must_have_what_the_node_holds(
    kept: dict[int, list[int]], incarnation: int
) -> None:
    """One that lacks an assignment has lost more; with one that lacks none the run goes on."""
    around = Around()
    around.step()
    around.step()
    around.workers.jobs = {3: {30}, 4: {40}}
    around.database.jobs = kept
    around.database.server = "1/2"
    around.step()
    around.step()
    assert around.lease.identity == (1, incarnation)


def test_an_operator_drains_the_node_and_has_it_take_jobs_again() -> None:
    """The state is set before the services are notified; then those that claim are woken."""
    around = Around()
    around.step()
    around.database.state = "draining"
    around.step()
    assert around.lifecycle.is_draining
    is_rung(around.wakeups.claimer)
    around.step()
    assert not is_rung(around.wakeups.claimer)
    around.database.state = "alive"
    around.step()
    assert not around.lifecycle.is_draining
    assert is_rung(around.wakeups.claimer)


def test_a_node_that_ends_is_not_talked_out_of_it() -> None:
    """By a heartbeat that was under way when it began to."""
    around = Around()
    around.step()
    around.lifecycle.end()
    is_rung(around.wakeups.claimer)
    around.step()
    assert around.lifecycle.is_draining
    assert not is_rung(around.wakeups.claimer)


def test_a_node_that_ends_is_shown_as_draining_though_it_was_undrained() -> None:
    """By an operator who could not know that it stops."""
    around = Around()
    around.step()
    around.lifecycle.end()
    around.database.state = "alive"
    around.step()
    assert around.database.state == "draining"


def test_rescued_jobs_are_counted() -> None:
    """Of each heartbeat."""
    stage = Around()
    stage.step()
    stage.database.rescued = 3
    stage.step()
    stage.step()
    assert stage.meters.rescues == {"expired": 6}


def test_a_node_sets_sequences_before_it_first_registers() -> None:
    """Not when it registers anew: they have been right since."""
    around = Around()
    around.step()
    around.database.is_buried = True
    around.step()
    assert around.database.checks == 1
