"""The deploy guard of a node: what it makes of what the database holds."""

import time

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from tests.unit.node.doubles import fake, is_rung
from txqueue.node.settings import NodeSettings
from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.periodic import Wakeups
from txqueue.node.upkeep import GUARD_EVERY, UNTIL_WORKERS, DeployGuard
from txqueue.node.workers.starter import RunVersion, WorkerVersions
from txqueue.policy.findings.obstacles import HeldType

HELD = HeldType("mail", "3c2eecad", "KeyError: 'a'", 14, 20)
ELSEWHERE = HeldType("sms", "00000000", "KeyError: 'b'", 3, 3)


class Functions:
    """The stored functions, which hold what the test says, and have jobs to give back once."""

    def __init__(self, *held: HeldType, returned: int = 0) -> None:
        self.held, self.returned = list(held), returned

    async def guard_versions(self, *_: object) -> list[HeldType]:
        """Return what is held, of all versions."""
        return self.held

    async def return_held(self) -> int:
        """Return how many jobs come back."""
        returned, self.returned = self.returned, 0
        return returned


class Guarded:
    """A guard, and what it calls."""

    def __init__(self, *held: HeldType, returned: int = 0) -> None:
        clock, lease = Clock(), Lease(10.0)
        lease.register(Identity(1, 1))
        lease.renew(time.monotonic())
        self.functions = Functions(*held, returned=returned)
        self.versions = WorkerVersions(["mail", "sms"], [])
        self.wakeups = Wakeups(clock)
        settings = NodeSettings(dsn="", app=[])
        self.guard = DeployGuard(
            clock, fake(self.functions), lease, self.versions, settings, self.wakeups
        )

    def start_worker(self) -> None:
        """Have a worker that runs a version."""
        self.versions.add(1, RunVersion("3c2eecad", frozenset(), {}))

    def look(self) -> float | None:
        """Look once; return the pause after that."""
        found: list[float | None] = []
        Deferred.fromCoroutine(self.guard.step()).addCallback(found.append)
        return found[0]


def test_a_held_type_is_claimed_no_more() -> None:
    """Its hold is logged once; the holds of other versions are theirs."""
    guarded = Guarded(HELD, ELSEWHERE)
    assert guarded.look() == UNTIL_WORKERS
    assert guarded.versions.claimable == ["mail", "sms"]
    guarded.start_worker()
    with capturedLogs() as notes:
        assert guarded.look() == guarded.look() == GUARD_EVERY
    assert [*map(formatEvent, notes)] == ["held: mail on 3c2eecad: KeyError: 'a' (14 of 20)"]
    assert guarded.versions.claimable == ["sms"]
    assert guarded.versions.measured()["held"] == ["mail"]


def test_a_released_type_is_claimed_at_once() -> None:
    """The claimer may sleep, as it has found nothing."""
    guarded = Guarded(HELD)
    guarded.start_worker()
    guarded.look()
    assert not is_rung(guarded.wakeups.claimer)
    guarded.functions.held = []
    guarded.look()
    assert is_rung(guarded.wakeups.claimer)
    assert guarded.versions.claimable == ["mail", "sms"]


def test_many_jobs_come_back_one_after_the_other() -> None:
    """After some of them it looks again at once."""
    guarded = Guarded(HELD, returned=1000)
    guarded.start_worker()
    assert guarded.look() == 0.0
    assert guarded.look() == GUARD_EVERY
