"""The service that ticks: when it looks, what it has done, and that nothing ends it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import attrs
import pytest
from attrs import Factory, define
from twisted.internet.task import Clock, deferLater

from tests.unit.node.doubles import INCARNATION, NODE, is_rung, lease_of
from txqueue.errors import DatabaseUnavailable, InvalidWork, Refused
from txqueue.model.schedule import Every
from txqueue.model.work_item import WorkItem
from txqueue.node.arrival.scheduler import (
    LONGEST,
    MARGIN,
    MENDING,
    SHORTEST,
    WOKEN,
    ConditionChecks,
    Scheduler,
)
from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.periodic import Wakeups
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.store.schedules import CONDITION_PATIENCE, Due, Schedules

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def row(name: str = "often", **more: Any) -> dict[str, Any]:
    """A schedule that is due, as a look finds it."""
    given = {"schedule_id": 1, "name": name, "kind": "every", "seconds": 60.0, "jitter": 0.0}
    rest = {"catch_up": "one", "condition": None, "expression": None, "zone": None, "priority": 4}
    return {**given, **rest, "due": (NOON - timedelta(seconds=1)).isoformat(), **more}


@define
class Scripted(Schedules):
    """Returns scripted schedules, and records calls."""

    clock: Clock
    finds: list[Any] = Factory(list)
    looks: list[tuple[float, datetime | None]] = Factory(list)
    busy: list[list[tuple[str, str]]] = Factory(list)
    ticks: list[list[dict[str, Any]]] = Factory(list)
    published: list[list[str]] = Factory(list)
    refuses: bool = False
    due_in: float | None = None
    asked: list[str] = Factory(list)
    hangs: set[str] = Factory(set)

    async def met(self, table: str, column: str, values: Any) -> set[str]:
        """Find all of them, unless the table hangs."""
        self.asked.append(table)
        if table in self.hangs:
            clock: Any = self.clock
            await deferLater(clock, CONDITION_PATIENCE)
            raise Refused("the database did not answer within 1 s")
        return set(values)

    async def due(self, since: datetime | None = None, busy: Sequence[tuple[str, str]] = ()) -> Due:
        """Return what comes next."""
        self.looks.append((self.clock.seconds(), since))
        self.busy.append([*busy])
        found = self.finds.pop(0) if self.finds else []
        if isinstance(found, Exception):
            raise found
        return Due(found, self.due_in, NOON + timedelta(seconds=self.clock.seconds()))

    def trim(self) -> None:
        """Have no connections."""

    async def tick(self, ticks: Any) -> int:
        """Note it."""
        self.ticks.append(ticks)
        return len(ticks)

    async def publish(self, work_types: Any, schedules: Any) -> int:
        """Note it."""
        self.published.append([each["name"] for each in schedules])
        if self.refuses:
            raise Refused("too large a payload")
        return 0

    async def mend(self) -> int:
        """Find no missed cool-down."""
        return 0


@define
class Bench:
    """A scheduler, and all around it."""

    clock: Clock
    schedules: Scripted
    service: Scheduler
    lease: Lease
    wakeups: Wakeups

    def looked(self) -> list[float]:
        """When it has looked."""
        return [at for at, _ in self.schedules.looks]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """One of a class that declares a schedule, which is not started."""
    clock = Clock()
    monkeypatch.setattr("txqueue.node.arrival.scheduler.time.monotonic", clock.seconds)
    schedules = Scripted(clock)
    lease, wakeups = lease_of(), Wakeups(clock)
    service = Scheduler(
        clock,
        schedules,
        checks=ConditionChecks(clock, schedules, wakeups),
        classes=[declaring()],
        lease=lease,
        wakeups=wakeups,
    )
    return Bench(clock, schedules, service, lease, wakeups)


def _idle(_: object, __: object) -> None:
    """Do nothing."""


def declaring() -> type[WorkItem]:
    """A class that declares a schedule."""
    body = {"work_type": "test.declares", "schedule": Every(60), "perform": _idle}
    return attrs.define(type("Declares", (WorkItem,), body))


def passes(bench: Bench, seconds: float) -> None:
    """Have time pass, in small steps."""
    bench.clock.pump([0.05] * round(seconds / 0.05))


def test_classes_are_published_first_and_once(bench: Bench) -> None:
    """Even if the database refuses them: what others have made is ticked all the same."""
    bench.schedules.refuses = True
    bench.schedules.finds = [[row()]]
    bench.service.startService()
    passes(bench, 30)
    assert bench.schedules.published == [["test.declares"]]
    assert len(bench.schedules.ticks) == 1


def test_what_is_due_is_ticked_at_once_and_the_claimer_told(bench: Bench) -> None:
    """With the moment it was due and the next one."""
    bench.schedules.finds = [[row(), row("other", schedule_id=2)]]
    bench.service.startService()
    ((first, second),) = bench.schedules.ticks
    assert first["moments"] == [first["due"]]
    assert datetime.fromisoformat(second["next"]) > NOON
    assert is_rung(bench.wakeups.claimer)


def test_it_looks_when_something_is_due_and_else_now_and_then(bench: Bench) -> None:
    """Never more often than needed, however soon the next is due."""
    bench.service.startService()
    passes(bench, 2 * LONGEST + 0.5)
    assert len(bench.schedules.looks) == 3
    bench.schedules.due_in = 2.0
    passes(bench, LONGEST)
    before = len(bench.schedules.looks)
    passes(bench, 4.1)
    assert len(bench.schedules.looks) - before == 2
    bench.schedules.due_in = -1.0
    passes(bench, 2.0)
    before = len(bench.schedules.looks)
    passes(bench, 2.0)
    assert 5 <= len(bench.schedules.looks) - before <= 2.0 / SHORTEST + 1


def beat(bench: Bench, schedule_in: float | None, *, is_idle: bool = True) -> None:
    """Have a heartbeat answer so."""
    reply = HeartbeatReply(True, "alive", [], [], is_idle=is_idle, schedule_in=schedule_in)
    bench.wakeups.on_heartbeat(reply)
    bench.service.on_heartbeat(reply)


def test_it_looks_seldom_while_heartbeats_see_that_none_is_due(bench: Bench) -> None:
    """And at once when one sees that one is, or no longer looks."""
    beat(bench, None)
    bench.service.startService()
    passes(bench, MENDING - 1)
    assert len(bench.schedules.looks) == 1
    beat(bench, 0.0)
    assert len(bench.schedules.looks) == 2
    beat(bench, None)
    passes(bench, 5 * LONGEST)
    assert len(bench.schedules.looks) == 3
    beat(bench, None, is_idle=False)
    passes(bench, 2 * LONGEST)
    assert len(bench.schedules.looks) >= 5


def test_a_schedule_that_a_look_found_is_not_looked_for_by_each_heartbeat(bench: Bench) -> None:
    """Both name the same moment."""
    bench.schedules.due_in = 30.0
    beat(bench, 30.0)
    bench.service.startService()
    for passed in range(1, 20):
        passes(bench, 1.0)
        beat(bench, 30.0 - passed)
    assert len(bench.schedules.looks) == 1


def test_wake_ups_bring_a_look_but_not_each_its_own(bench: Bench) -> None:
    """Most of them are not about schedules."""
    bench.service.startService()
    for _ in range(100):
        bench.service.alarm.ring()
        passes(bench, 0.05)
    looks = bench.looked()
    assert 4 <= len(looks) <= 6
    gaps = [later - sooner for sooner, later in pairwise(looks)]
    assert min(gaps) >= WOKEN - 1e-9


def test_a_claim_continues_where_the_last_one_ended(bench: Bench) -> None:
    """And now and then looks at all."""
    bench.schedules.due_in = 1.0
    bench.service.startService()
    passes(bench, 30)
    whole = [at for at, since in bench.schedules.looks if since is None]
    assert 3 <= len(whole) <= 4
    assert len(bench.schedules.looks) > 20


def test_what_was_missed_is_made_up_for_at_once(bench: Bench) -> None:
    """A hundred moments at a time, with no pause in between."""
    old = (NOON - timedelta(seconds=250)).isoformat()
    late = (NOON - timedelta(seconds=150)).isoformat()
    whole: dict[str, Any] = {"seconds": 1.0, "catch_up": "all"}
    bench.schedules.finds = [[row(due=old, **whole)], [row(due=late, **whole)]]
    bench.service.startService()
    passes(bench, 0.1)
    assert [len(ticks[0]["moments"]) for ticks in bench.schedules.ticks][:2] == [100, 100]


def test_without_a_lease_nothing_is_ticked(bench: Bench) -> None:
    """Another run of this node may be there."""
    bench.lease.forget()
    bench.service.startService()
    passes(bench, 10)
    assert bench.schedules.looks == []
    bench.lease.register(Identity(NODE, INCARNATION))
    passes(bench, 2)
    assert bench.schedules.looks


def test_no_error_ends_it(bench: Bench) -> None:
    """It looks again after a pause."""
    bench.schedules.finds = [DatabaseUnavailable("away"), [row()]]
    bench.service.startService()
    passes(bench, 1)
    assert len(bench.schedules.ticks) == 1


def test_a_scheduled_class_with_required_fields_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the node starts, not when work is due."""
    # Other tests make nodes that serve all registered classes.
    monkeypatch.setattr("txqueue.model.work_item._registry", {})
    body = {
        "__annotations__": {"project": int},
        "work_type": "test.needs",
        "schedule": Every(60),
        "perform": _idle,
    }
    needs = attrs.define(type("Needs", (WorkItem,), body))
    with pytest.raises(InvalidWork, match="fields without a default"):
        Scheduler(
            bench.clock,
            bench.schedules,
            checks=ConditionChecks(bench.clock, bench.schedules, bench.wakeups),
            classes=[needs],
            lease=bench.lease,
            wakeups=bench.wakeups,
        )


def test_a_condition_that_hangs_holds_up_no_other_schedule(bench: Bench) -> None:
    """Others are ticked and looked for meanwhile; the one that hangs then says so."""
    hanging = row("hangs", schedule_id=2, condition=["public.locked", "id", "1"])
    other = row("other", schedule_id=3, condition=["public.fine", "id", "1"])
    bench.schedules.hangs = {"public.locked"}
    bench.schedules.due_in = 0.2
    bench.schedules.finds = [[hanging, other, row()], [row()], [row()]]
    bench.service.startService()
    passes(bench, CONDITION_PATIENCE / 2)
    first, fine, *later = [each for (each,) in bench.schedules.ticks]
    assert (first["schedule_id"], [each["schedule_id"] for each in later]) == (1, [1, 1])
    assert (fine["schedule_id"], fine["moments"], fine["error"]) == (3, [other["due"]], None)
    assert bench.schedules.busy[-1] == [("public.locked", "id")]
    passes(bench, CONDITION_PATIENCE)
    (hung,) = bench.schedules.ticks[-1]
    assert "public.locked cannot be checked: the database did not answer" in hung["error"]
    assert hung["moments"] == []
    assert bench.schedules.busy[-1] == []


def test_what_became_due_during_a_check_is_looked_for(bench: Bench) -> None:
    """It was left out of the looks meanwhile, which look back only for some seconds."""
    bench.schedules.hangs = {"public.locked"}
    bench.schedules.due_in = 0.2
    bench.schedules.finds = [[row(condition=["public.locked", "id", "1"])]]
    bench.service.startService()
    passes(bench, CONDITION_PATIENCE + 0.5)
    since = next(since for at, since in bench.schedules.looks if at > CONDITION_PATIENCE)
    assert since == NOON - MARGIN


def test_a_condition_that_hung_is_left_alone_for_a_while(bench: Bench) -> None:
    """It takes a tenth of the time at most, and is tried again later."""
    hanging = row(condition=["public.locked", "id", "1"])
    bench.schedules.hangs = {"public.locked"}
    bench.schedules.finds = [[hanging] for _ in range(1000)]
    bench.schedules.due_in = 0.1
    bench.service.startService()
    passes(bench, 30)
    assert 2 <= len(bench.schedules.asked) <= 4
    assert len(bench.schedules.ticks) > 50
    bench.schedules.hangs.clear()
    passes(bench, 15)
    assert bench.schedules.ticks[-1][0]["error"] is None


def test_the_first_moment_of_a_new_schedule_is_not_slept_through(bench: Bench) -> None:
    """A look that plans a moment a second from now looks again by then."""
    bench.schedules.finds = [[row(due=None, kind="every", seconds=1.0)]]
    bench.service.startService()
    passes(bench, 1.5)
    assert len(bench.schedules.looks) >= 2
