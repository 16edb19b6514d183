"""What a heartbeat's answer wakes while nodes are idle."""

from twisted.internet.task import Clock

from tests.unit.node.doubles import is_rung
from txqueue.node.state.periodic import Wakeups
from txqueue.policy.placement.idling import LONGEST_IDLE, SELDOM, IdlePace
from txqueue.store.node.run_functions import HeartbeatReply


def reply(*, is_idle: bool = True, work_in: float | None = None) -> HeartbeatReply:
    """Return the answer to a heartbeat."""
    return HeartbeatReply(True, "alive", [], [], is_idle=is_idle, work_in=work_in)


def test_work_that_a_heartbeat_sees_wakes_the_claimer() -> None:
    """Also such that is due before the next heartbeat."""
    woken = []
    for work_in in (None, 0.0, 2.0, 600.0):
        wakeups = Wakeups(Clock())
        wakeups.on_heartbeat(reply(work_in=work_in))
        woken.append(is_rung(wakeups.claimer))
    assert woken == [False, True, True, False]


def test_once_a_node_has_jobs_they_are_compared() -> None:
    """At once, and not by each heartbeat."""
    wakeups = Wakeups(Clock())
    wakeups.on_heartbeat(reply())
    for expected in (True, False):
        wakeups.on_heartbeat(reply(is_idle=False))
        assert is_rung(wakeups.reconciliation) == expected


def test_a_claimer_that_may_sleep_for_long_is_woken_once_nodes_have_jobs() -> None:
    """Enqueues send no notification while another master is awake."""
    wakeups = Wakeups(Clock())
    woken = []
    for is_idle in (True, False, False):
        wakeups.on_heartbeat(reply(is_idle=is_idle))
        woken.append(is_rung(wakeups.claimer))
    assert woken == [False, True, False]


def test_claims_are_rare_only_while_idle_and_notified() -> None:
    """An outcome wakes a claimer that may sleep for long, as its job may be due again soon."""
    for is_idle in (False, True):
        for has_notifications in (False, True):
            wakeups = Wakeups(Clock())
            wakeups.on_heartbeat(reply(is_idle=is_idle))
            wakeups.has_notifications = has_notifications
            wakeups.on_outcome()
            rare = is_idle and has_notifications
            assert wakeups.slowest_claim == (SELDOM if rare else LONGEST_IDLE)
            assert is_rung(wakeups.claimer) == rare


def test_an_idle_node_keeps_the_pace_that_poll_allows() -> None:
    """And the usual one with jobs."""
    wakeups = Wakeups(Clock(), IdlePace(90.0, poll=30.0))
    assert (wakeups.beat, wakeups.upkeep(15.0)) == (22.5, 15.0)
    wakeups.on_heartbeat(reply())
    assert (wakeups.beat, wakeups.upkeep(15.0)) == (30.0, 30.0)
