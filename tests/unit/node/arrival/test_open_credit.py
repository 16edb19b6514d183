"""A node grants open credit, and runs the jobs that were enqueued by it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from twisted.internet.task import Clock

from tests.unit.node.doubles import INCARNATION, Loop, Records, Workers, fake, lease_of
from txqueue.errors import DatabaseUnavailable
from txqueue.node.arrival.assigned import Intake, OpenCredit
from txqueue.node.arrival.notifications import DatabaseNotices
from txqueue.node.state.arrivals import Deduplicator
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Wakeups
from txqueue.policy.placement.credit import BURST, MOST_OPEN, STALE, TURN_OPEN
from txqueue.policy.placement.idling import WakePlace
from txqueue.store.driver.listener import OwnChannel

CHANNEL = OwnChannel(f"listen {INCARNATION}", "")
MOST, TURN = MOST_OPEN, TURN_OPEN


class Bank:
    """The service and all around it: the database answers at once."""

    def __init__(self, lease: Lease | None = None) -> None:
        self.clock = Clock()
        self.grants: list[int] = []
        self.channel: OwnChannel | None = CHANNEL
        self.is_away = False
        self.commit = 0.0
        self.credit_of_another: int | None = None
        self.workers = Workers()
        self.records = Records()
        self.lifecycle = Lifecycle(fake(Loop()))
        self.deduplicator = Deduplicator()
        self.wakeups = Wakeups(self.clock)
        self.wakeups.place = WakePlace(0, 1)
        self.notices = DatabaseNotices(self.wakeups)
        self.lease = lease or lease_of()
        self.service = OpenCredit(
            self.clock,
            self,  # type: ignore[arg-type]
            listener=fake(self),
            notices=self.notices,
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=fake(self.workers),
            intake=Intake(
                fake(self.workers), self.deduplicator, self.lifecycle, fake(self.records)
            ),
            wakeups=self.wakeups,
        )

    def listens_on(self, own: OwnChannel) -> bool:
        """Whether the listener listens on the node's channel."""
        return own == self.channel

    def channel_of(self, incarnation: int) -> OwnChannel:
        """Tell it as the stored functions do."""
        return OwnChannel(f"listen {incarnation}", "")

    async def grant_credit(self, incarnation: int, jobs: int, unused: int | None) -> int | None:
        """Note it, unless another node's credit is in use."""
        assert incarnation == INCARNATION
        if self.is_away:
            raise DatabaseUnavailable("away", "")
        self.clock.rightNow += self.commit
        if jobs and self.credit_of_another != unused:
            return self.credit_of_another
        self.grants.append(jobs)
        self.credit_of_another = None
        return None

    def bring(self, *numbers: int, run: int = INCARNATION) -> None:
        """Have notifications bring jobs, all together."""
        self.notices.on_own_notices([f"{run} 0 {number} []" for number in numbers])

    def bring_each(self, numbers: Iterable[int]) -> None:
        """Have notifications bring jobs, one after the other, as of commits of their own."""
        for number in numbers:
            self.bring(number)

    def seconds_until_granted(self) -> int | None:
        """Claim a job each second; return the seconds until credit is given."""
        self.workers.held = 0
        since = self.clock.seconds()
        for _ in range(30):
            self.clock.advance(STALE)
            self.service.on_miss()
            if self.grants[-1]:
                return round(self.clock.seconds() - since)
        return None

    @contextmanager
    def granted(self) -> Iterator[None]:
        """Run it, with credit granted."""
        self.service.on_backlog(has_backlog=False)
        self.service.startService()
        self.service.on_miss()
        assert self.grants
        yield
        self.service.stopService()
        assert self.clock.getDelayedCalls() == []

    @property
    def performed(self) -> list[int]:
        """The assignments that the workers perform."""
        return [each.number for each in self.workers.performed]


def test_credit_is_granted_when_a_job_had_to_be_claimed() -> None:
    """Much of it, as the node is alone."""
    bank = Bank()
    with bank.granted():
        assert bank.grants == [MOST]


def test_jobs_run_as_soon_as_notifications_bring_them() -> None:
    """Without a read, and once, even if polling was faster; none of another run."""
    bank = Bank()
    with bank.granted():
        bank.deduplicator.accept(3)
        bank.bring(1, 2, 2, 3)
        bank.bring(4, run=INCARNATION - 1)
        bank.bring(2, 5)
        assert bank.performed == [1, 2, 5]
    assert bank.service.received == 3


def test_credit_is_renewed_when_half_of_it_is_used_up() -> None:
    """As long as no other node can take the jobs."""
    bank = Bank()
    with bank.granted():
        bank.clock.advance(1)
        for number in range(1, MOST):
            bank.bring(number)
        assert bank.grants == [MOST, MOST]


def test_another_node_gets_the_next_turn() -> None:
    """Credit is renewed only after a claim has shown that none is left."""
    bank = Bank()
    bank.wakeups.place = WakePlace(0, 2)
    with bank.granted():
        bank.clock.advance(0.5)
        bank.bring(*range(1, TURN))
        bank.service.on_miss()
        assert bank.grants == [TURN]
        bank.bring(TURN)
        assert bank.grants == [TURN]
        bank.service.on_miss()
        assert bank.grants == [TURN, TURN]


def test_credit_of_transactions_that_were_rolled_back_is_granted_again() -> None:
    """The node sees jobs claimed while it believes that there is credit; it asks now and then."""
    bank = Bank()
    with bank.granted():
        bank.clock.advance(STALE / 2)
        bank.service.on_miss()
        assert bank.grants == [MOST]
        bank.clock.advance(STALE / 2)
        bank.service.on_miss()
        assert bank.grants == [MOST, MOST]


def test_an_open_transaction_collects_little_credit() -> None:
    """All its jobs would run on this node; each grant waits twice as long as the one before."""
    bank = Bank()
    with bank.granted():
        moments = [0.0]
        for _ in range(40):
            bank.clock.advance(STALE / 2)
            bank.service.on_miss()
            if len(bank.grants) > len(moments):
                moments.append(bank.clock.seconds())
        assert moments == [0, 1, 3, 7, 15]
        bank.clock.advance(STALE / 2)
        bank.bring(*range(MOST))
        assert len(bank.grants) == len(moments) + 1
        bank.clock.advance(STALE)
        bank.service.on_miss()
        assert len(bank.grants) == len(moments) + 2


def test_credit_of_another_node_stays_while_it_is_used() -> None:
    """The next attempt is a second later; it replaces credit of which nothing was taken since."""
    bank = Bank()
    bank.credit_of_another = 7
    bank.service.on_backlog(has_backlog=False)
    bank.service.startService()
    bank.service.on_miss()
    bank.service.on_miss()
    bank.credit_of_another = 8
    bank.clock.advance(STALE)
    bank.service.on_miss()
    bank.service.on_miss()
    assert bank.grants == []
    bank.clock.advance(STALE)
    bank.service.on_miss()
    assert bank.grants == [MOST]
    bank.service.stopService()


def test_where_commits_are_slow_a_lone_client_keeps_its_credit() -> None:
    """One transaction at a time takes of it, so that no commit waits for another one."""
    bank = Bank()
    bank.commit = 0.1
    with bank.granted():
        for number in range(20):
            bank.clock.advance(0.1)
            bank.workers.held = 0
            bank.bring(number)
        assert bank.grants == [MOST] * 2


def test_jobs_that_keep_coming_too_fast_are_claimed_for_longer_each_time() -> None:
    """To change between credit and claims every second would make some jobs late."""
    bank = Bank()
    with bank.granted():
        rests = []
        for flood in range(6):
            bank.clock.advance(0.001)
            bank.bring(*range(1 + flood * MOST, (1 + flood) * MOST))
            assert bank.grants[-1] == 0
            rests.append(bank.seconds_until_granted())
        assert rests == [1, 2, 4, 8, 16, 16]
        bank.clock.advance(1)
        bank.bring(*range(6 * MOST, 7 * MOST))
        assert bank.grants[-1] == MOST
        bank.clock.advance(0.001)
        bank.bring(*range(7 * MOST, 8 * MOST))
        assert bank.seconds_until_granted() == 1


def test_credit_is_withdrawn_while_many_jobs_are_claimed_beside_it() -> None:
    """One client at a time takes of the credit, and to read its jobs one by one saves little."""
    bank = Bank()
    with bank.granted():
        bank.clock.advance(BURST / 2000)
        bank.bring(1)
        bank.service.on_claim(BURST - 1)
        assert bank.grants == [MOST]
        bank.service.on_claim(1)
        assert bank.grants == [MOST, 0]
        bank.service.on_miss()
        assert bank.grants == [MOST, 0]
        bank.clock.advance(STALE)
        bank.service.on_miss()
        assert bank.grants == [MOST, 0, MOST]
        bank.clock.advance(1)
        bank.service.on_claim(BURST)
        assert bank.grants == [MOST, 0, MOST]


def test_a_backlog_withdraws_the_credit() -> None:
    """Ready jobs are not overtaken; once there are none, credit returns after the next claim."""
    bank = Bank()
    with bank.granted():
        bank.bring(*range(MOST // 2 - 1))
        bank.service.on_backlog(has_backlog=True)
        assert bank.grants == [MOST, 0]
        bank.service.on_miss()
        bank.service.on_backlog(has_backlog=False)
        assert bank.grants == [MOST, 0]
        bank.clock.advance(2 * STALE)
        bank.service.on_miss()
        assert bank.grants == [MOST, 0, MOST]


def test_credit_that_is_withdrawn_unused_is_not_granted_again_at_once() -> None:
    """An open transaction may have used it, and would use more each time that a backlog ends."""
    bank = Bank()
    with bank.granted():
        moments = []
        for _ in range(60):
            bank.service.on_backlog(has_backlog=True)
            bank.clock.advance(STALE / 2)
            bank.service.on_backlog(has_backlog=False)
            bank.service.on_miss()
            if bank.grants[-1]:
                moments.append(bank.clock.seconds())
        assert moments == [2, 6, 14, 30]


def test_a_node_without_room_grants_nothing() -> None:
    """Nor does one whose listener is away, or that drains, or whose lease is over."""
    full, deaf, draining, over = Bank(), Bank(), Bank(), Bank(Lease(0.0))
    full.workers.held = full.workers.capacity
    deaf.channel = OwnChannel("listen 6", "")
    draining.lifecycle.order(drain=True)
    for bank in (full, deaf, draining, over):
        bank.service.on_backlog(has_backlog=False)
        bank.service.startService()
        bank.service.on_miss()
        bank.service.stopService()
        assert bank.grants == []


@pytest.mark.parametrize("what", ["deaf", "draining"])
def test_credit_is_withdrawn_when_the_node_may_grant_none(what: str) -> None:
    """The service that knows it rings the alarm."""
    bank = Bank()
    with bank.granted():
        bank.wakeups.open_credit.ring()
        assert bank.grants == [MOST]
        if what == "deaf":
            bank.channel = None
        else:
            bank.lifecycle.end()
        bank.wakeups.open_credit.ring()
        assert bank.grants == [MOST, 0]


def test_a_draining_node_returns_late_jobs() -> None:
    """Their transactions had taken the credit before it was withdrawn."""
    bank = Bank()
    with bank.granted():
        bank.lifecycle.end()
        bank.bring(5)
    assert bank.performed == []
    assert bank.records.given_back == [(5, None)]


def test_a_withdrawal_that_failed_is_repeated() -> None:
    """Otherwise jobs would go on to be assigned to a node that cannot receive them."""
    bank = Bank()
    with bank.granted():
        bank.is_away = True
        bank.service.on_backlog(has_backlog=True)
        assert bank.grants == [MOST]
        bank.is_away = False
        bank.clock.advance(1)
        assert bank.grants == [MOST, 0]
