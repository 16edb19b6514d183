"""The notification service detects lost connections, and poolers that drop notifications."""

from contextlib import suppress
from typing import Any

import pytest
from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from tests.unit.node.doubles import is_rung, lease_of
from txqueue.errors import ConfigurationError, DatabaseUnavailable
from txqueue.node.arrival.notifications import (
    CHECK,
    SOON,
    UNHEARD_RETRY,
    DatabaseNotices,
    Notifications,
)
from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.periodic import Wakeups
from txqueue.policy.placement.idling import WOKEN
from txqueue.store.driver.listener import PROBED, TESTED, OwnChannel
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.run_functions import HeartbeatReply


@define
class Listening:
    """Stands for a listener: what each `ensure()` brings."""

    brings: list[bool | Exception] = field(factory=list)
    channels: list[OwnChannel | None] = field(factory=list)
    listens: bool = True
    connecting: Deferred[None] = field(factory=lambda: succeed(None))
    is_heard: bool = False
    is_deaf: bool = False
    is_busy: bool = False
    tested: list[tuple[float, float]] = field(factory=list)

    async def check(self, tested: float, probed: float) -> bool:
        """Say whether it listens."""
        self.tested.append((tested, probed))
        return self.listens

    def is_proven(self, within: float) -> bool:
        """Say whether a probe has arrived."""
        return self.is_heard

    def listens_on(self, own: OwnChannel) -> bool:
        """Say whether notifications arrive on the channel of `ensure()`."""
        return not self.is_busy and own == self.channels[-1]

    async def ensure(self, own: OwnChannel | None) -> bool:
        """Listen, or say why not."""
        self.channels.append(own)
        await self.connecting
        said = self.brings.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def close(self) -> None:
        """Stop."""


def notifications(listening: Any, lease: Lease | None = None) -> tuple[Notifications, Wakeups]:
    """The service on it, and what it wakes."""
    wakeups = Wakeups(Clock())
    functions = StoredFunctions(Never())  # type: ignore[arg-type]  # it only names the channel
    service = Notifications(
        Clock(), listening, functions=functions, lease=lease or lease_of(), wakeups=wakeups
    )
    return service, wakeups


class Never:
    """A pool that is not used."""


async def test_after_a_loss_services_look_for_what_was_missed() -> None:
    """And only then."""
    service, wakeups = notifications(Listening([True, False]))
    assert await service.step() == CHECK
    for alarm in (wakeups.claimer, wakeups.scheduler, wakeups.reconciliation):
        assert is_rung(alarm)
    assert await service.step() == CHECK
    assert not is_rung(wakeups.claimer)


async def test_the_channel_is_that_of_the_run() -> None:
    """There is none before the node is registered."""
    lease = Lease(10.0)
    listening = Listening([False, False])
    service, _ = notifications(listening, lease)
    await service.step()
    lease.register(Identity(1, 7))
    await service.step()
    assert listening.channels == [
        None,
        OwnChannel("select txqueue.listen_to_run(7)", "select txqueue.probe_run(7)"),
    ]


async def test_a_node_that_does_not_listen_on_its_channel_yet_tries_again_soon() -> None:
    """As it is busy, has no run, or its first probe is on its way; until then it grants no credit.

    One whose probes do not arrive waits longer.
    """
    lease = Lease(10.0)
    listening = Listening([True, False, False, False], is_busy=True)
    service, _ = notifications(listening, lease)
    assert await service.step() == SOON
    lease.register(Identity(1, 7))
    assert await service.step() == SOON
    listening.is_deaf = True
    assert await service.step() == CHECK
    listening.is_busy = listening.is_deaf = False
    assert await service.step() == CHECK


async def test_an_idle_node_tests_its_connection_seldom_while_its_probes_arrive() -> None:
    """It polls seldom, too; among many nodes each sends fewer probes."""
    listening = Listening([False] * 5)
    service, wakeups = notifications(listening)
    beat = HeartbeatReply(True, "alive", [], [], is_idle=True, nodes=80)
    for is_heard in (False, True, True):
        listening.is_heard = is_heard
        await service.step()
        assert wakeups.has_notifications == is_heard
        wakeups.on_heartbeat(beat)
    await service.step()
    assert listening.tested == [(TESTED, PROBED), *[(TESTED, 100.0)], *[(PROBED, 100.0)] * 2]
    wakeups.on_heartbeat(HeartbeatReply(True, "alive", [], []))
    await service.step()
    assert listening.tested[-1] == (TESTED, PROBED)


async def test_a_probe_that_does_not_arrive_is_warned_of_once() -> None:
    """Meanwhile the node polls as often as without probes, and tests go on."""
    listening = Listening([False] * 4, is_deaf=True)
    service, wakeups = notifications(listening)
    warnings: list[str] = []
    service.log = Warned(warnings)  # type: ignore[assignment]
    for is_deaf in (True, True, False, True):
        listening.is_deaf = is_deaf
        await service.step()
        assert not wakeups.has_notifications
    assert len(warnings) == 2
    assert "has not arrived" in warnings[0]


@define
class Warned:
    """A log that keeps warnings."""

    warnings: list[str]

    def warn(self, text: str) -> None:
        """Keep it."""
        self.warnings.append(text)


@pytest.mark.parametrize("said", [False, DatabaseUnavailable("away"), ConfigurationError("deaf")])
async def test_the_open_credit_is_reviewed(said: bool | Exception) -> None:
    """It must be withdrawn if no notification would arrive."""
    service, wakeups = notifications(Listening([said]))
    with suppress(DatabaseUnavailable):
        await service.step()
    assert is_rung(wakeups.open_credit)


def test_the_credit_is_reviewed_before_a_slow_attempt_to_connect() -> None:
    """Jobs would be assigned meanwhile by notifications that do not arrive."""
    service, wakeups = notifications(Listening([True], listens=False, connecting=Deferred()))
    step = Deferred.fromCoroutine(service.step())
    assert is_rung(wakeups.open_credit)
    assert not step.called
    step.addErrback(lambda failure: failure.trap(CancelledError))
    step.cancel()


async def test_who_is_deaf_does_not_try_all_the_time() -> None:
    """A pooler in transaction mode stays one: each try would cost it connections."""
    service, wakeups = notifications(Listening([ConfigurationError("deaf", "")] * 2))
    with capturedLogs() as notes:
        assert await service.step() == UNHEARD_RETRY
        assert await service.step() == UNHEARD_RETRY
    assert [formatEvent(note) for note in notes] == ["deaf"]
    assert not is_rung(wakeups.claimer)


def reply(place: int | None, places: int | None) -> HeartbeatReply:
    """Return the answer to a heartbeat of a node at a place."""
    return HeartbeatReply(True, "alive", [], [], place=place, places=places)


def test_a_notification_of_one_job_wakes_a_few_of_many_nodes() -> None:
    """Each decides by its place, as its last heartbeat told."""
    woken = []
    for place in range(100):
        wakeups = Wakeups(Clock())
        wakeups.on_heartbeat(reply(place, 100))
        DatabaseNotices(wakeups).on_notices(["jobs 1 5"])
        woken += [place] * is_rung(wakeups.claimer)
        assert not is_rung(wakeups.scheduler)
    assert len(woken) == WOKEN


def test_a_node_without_room_has_no_place() -> None:
    """It would be woken in the place of one that has room."""
    wakeups = Wakeups(Clock())
    wakeups.on_heartbeat(reply(3, 100))
    wakeups.on_heartbeat(reply(None, 99))
    assert wakeups.place is None
