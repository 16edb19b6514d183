"""A node grants open credit, and runs the jobs that were enqueued by it."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from attrs import evolve
from twisted.internet.task import Clock

from tests.unit.node.doubles import INCARNATION, Loop, Records, Workers, lease_of
from txqueue.errors import DatabaseUnavailable
from txqueue.model.assignment import Assignment
from txqueue.node.arrival.database_notices import DatabaseNotices
from txqueue.node.arrival.intake import Intake
from txqueue.node.arrival.open_credit import SHARED_FOR, OpenCredit
from txqueue.node.state.deduplication import Deduplicator
from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.lifecycle import Lifecycle
from txqueue.node.state.meters import Meters
from txqueue.node.state.wakeups import Wakeups
from txqueue.policy.placement.credit import BURST, LONE_CREDIT, SHARED_CREDIT, SLOW_COMMIT
from txqueue.policy.placement.credit_grants import OVERLAPS, STALE
from txqueue.policy.placement.credit_reads import CreditState
from txqueue.policy.placement.idling import WakePlace
from txqueue.policy.placement.stragglers import LEAST
from txqueue.store.driver.listener import OwnChannel

CHANNEL = OwnChannel(f"listen {INCARNATION}", "")
MOST, TURN = LONE_CREDIT.most, LONE_CREDIT.turn


class Bank:
    """The service and all around it: the database answers at once."""

    def __init__(self, lease: Lease | None = None) -> None:
        self.clock = Clock()
        self.grants: list[int] = []
        self.asked: list[list[int]] = []
        # The jobs that were enqueued, and the state at the next read.
        self.enqueued: set[int] = set()
        self.open: frozenset[int] = frozenset()
        self.taken = 0
        self.reads = 0
        self.channel: OwnChannel | None = CHANNEL
        self.is_away = False
        self.commit = 0.0
        self.credit_of_another: int | None = None
        self.meters = Meters()
        self.workers = Workers()
        self.records = Records()
        self.lifecycle = Lifecycle(Loop())
        self.deduplicator = Deduplicator()
        self.wakeups = Wakeups(self.clock)
        self.wakeups.place = WakePlace(0, 1)
        self.notices = DatabaseNotices(self.wakeups)
        self.lease = lease or lease_of()
        self.service = OpenCredit(
            self.clock,
            self,  # type: ignore[arg-type]
            listener=self,
            notices=self.notices,
            lease=self.lease,
            lifecycle=self.lifecycle,
            workers=self.workers,
            intake=Intake(self.workers, self.deduplicator, self.lifecycle, self.records),
            meters=self.meters,
            wakeups=self.wakeups,
        )

    def listens_on(self, own: OwnChannel) -> bool:
        """Whether the listener listens on the node's channel."""
        return own == self.channel

    def channel_of(self, incarnation: int) -> OwnChannel:
        """Tell it as the stored functions do."""
        return OwnChannel(f"listen {incarnation}", "")

    async def grant_credit(
        self, incarnation: int, jobs: int, unused: int | None, *, is_shared: bool
    ) -> int | None:
        """Note it, unless another node's credit is in use."""
        assert incarnation == INCARNATION
        if self.is_away:
            raise DatabaseUnavailable("away", "")
        assert is_shared is (self.meters.commit_time == SLOW_COMMIT)
        self.clock.rightNow += self.commit
        if jobs and self.credit_of_another != unused:
            return self.credit_of_another
        self.grants.append(jobs)
        self.credit_of_another = None
        return None

    async def notified_jobs(self, incarnation: int, jobs: Sequence[Assignment]) -> list[Assignment]:
        """All that are of its run are there."""
        assert incarnation == INCARNATION
        self.asked.append([job.number for job in jobs])
        if self.is_away:
            raise DatabaseUnavailable("away", "")
        return [evolve(job, chunk="[]") for job in jobs if job.incarnation == incarnation]

    async def credited_jobs(
        self, incarnation: int, after: int, known: Sequence[int]
    ) -> tuple[list[Assignment], CreditState]:
        """Return all that are there, in one lane."""
        assert incarnation == INCARNATION
        self.reads += 1
        if self.is_away:
            raise DatabaseUnavailable("away", "")
        numbers = sorted(each for each in self.enqueued if each > after and each not in known)
        jobs = [Assignment(INCARNATION, number, 0, 1, 1, "[]") for number in numbers]
        return jobs, CreditState(self.taken, max(self.enqueued, default=0), self.open)

    def enqueue(self, *numbers: int) -> None:
        """Enqueue jobs as assigned, without a notification."""
        self.enqueued.update(numbers)
        self.taken += len(numbers)

    def bring(self, *numbers: int, chunk: str = " []", run: int = INCARNATION) -> None:
        """Have notifications bring jobs, all together."""
        self.enqueue(*numbers)
        self.notices.heard_own([f"{run} 0 {number}{chunk}" for number in numbers])

    def name(self, *numbers: int) -> None:
        """Have notifications name jobs that are too long for them."""
        self.bring(*numbers, chunk="")

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
            self.service.missed()
            if self.grants[-1]:
                return round(self.clock.seconds() - since)
        return None

    @contextmanager
    def granted(self) -> Iterator[None]:
        """Run it, with credit granted."""
        self.service.looked(has_backlog=False)
        self.service.startService()
        self.service.missed()
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


def test_named_jobs_are_read_together_and_run_once() -> None:
    """They are too long for a notification."""
    bank = Bank()
    with bank.granted():
        bank.deduplicator.accept(3)
        bank.name(1, 2, 3)
        bank.name(2, 4)
    assert bank.asked == [[1, 2, 3], [2, 4]]
    assert bank.performed == [1, 2, 4]
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
        bank.service.missed()
        assert bank.grants == [TURN]
        bank.bring(TURN)
        assert bank.grants == [TURN]
        bank.service.missed()
        assert bank.grants == [TURN, TURN]


def test_credit_of_transactions_that_were_rolled_back_is_granted_again() -> None:
    """The node sees jobs claimed while it believes that there is credit; it asks now and then."""
    bank = Bank()
    with bank.granted():
        bank.clock.advance(STALE / 2)
        bank.service.missed()
        assert bank.grants == [MOST]
        bank.clock.advance(STALE / 2)
        bank.service.missed()
        assert bank.grants == [MOST, MOST]


def test_an_open_transaction_collects_little_credit() -> None:
    """All its jobs would run on this node; each grant waits twice as long as the one before."""
    bank = Bank()
    with bank.granted():
        moments = [0.0]
        for _ in range(40):
            bank.clock.advance(STALE / 2)
            bank.service.missed()
            if len(bank.grants) > len(moments):
                moments.append(bank.clock.seconds())
        assert moments == [0, 1, 3, 7, 15]
        bank.clock.advance(STALE / 2)
        bank.bring(*range(MOST))
        assert len(bank.grants) == len(moments) + 1
        bank.clock.advance(STALE)
        bank.service.missed()
        assert len(bank.grants) == len(moments) + 2


def test_credit_of_another_node_stays_while_it_is_used() -> None:
    """The next attempt is a second later; it replaces credit of which nothing was taken since."""
    bank = Bank()
    bank.credit_of_another = 7
    bank.service.looked(has_backlog=False)
    bank.service.startService()
    bank.service.missed()
    bank.service.missed()
    bank.credit_of_another = 8
    bank.clock.advance(STALE)
    bank.service.missed()
    bank.service.missed()
    assert bank.grants == []
    bank.clock.advance(STALE)
    bank.service.missed()
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


def test_jobs_that_come_too_fast_are_claimed_for_a_while() -> None:
    """Many at a time, which costs less."""
    bank = Bank()
    with bank.granted():
        bank.clock.advance(0.001)
        bank.bring(*range(1, MOST))
        assert bank.grants == [MOST, 0]
        bank.service.missed()
        assert bank.grants == [MOST, 0]
        bank.clock.advance(STALE)
        bank.service.missed()
        assert bank.grants == [MOST, 0, MOST]


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


@pytest.mark.parametrize(("commit_time", "last"), [(None, 1), (SLOW_COMMIT, 2)])
def test_a_moment_of_calm_does_not_shorten_the_rest_of_shared_credit(
    commit_time: float | None, last: int
) -> None:
    """Else jobs near the pace that is too fast would change the way each second."""
    bank = Bank()
    bank.workers.capacity = 1_000
    if commit_time is not None:
        bank.meters.commits.append(commit_time)
    with bank.granted():
        most = bank.grants[-1]
        for first in (0, 2 * most):
            for number in range(most):
                bank.clock.advance(1 / most)
                bank.bring(1 + first + number)
            assert bank.grants[-1] == most
            bank.clock.advance(0.001)
            bank.bring(*range(1 + first + most, 1 + first + 2 * most))
            assert bank.grants[-1] == 0
            rest = bank.seconds_until_granted()
        assert rest == last


def test_credit_is_withdrawn_while_many_jobs_are_claimed_beside_it() -> None:
    """One client at a time takes of the credit, and to read its jobs one by one saves little."""
    bank = Bank()
    with bank.granted():
        bank.clock.advance(BURST / 2000)
        bank.bring(1)
        bank.service.claimed(BURST - 1)
        assert bank.grants == [MOST]
        bank.service.claimed(1)
        assert bank.grants == [MOST, 0]
        bank.service.missed()
        assert bank.grants == [MOST, 0]
        bank.clock.advance(STALE)
        bank.service.missed()
        assert bank.grants == [MOST, 0, MOST]
        bank.clock.advance(1)
        bank.service.claimed(BURST)
        assert bank.grants == [MOST, 0, MOST]


def test_a_backlog_withdraws_the_credit() -> None:
    """Ready jobs are not overtaken; once there are none, credit returns after the next claim."""
    bank = Bank()
    with bank.granted():
        bank.bring(*range(MOST // 2 - 1))
        bank.service.looked(has_backlog=True)
        assert bank.grants == [MOST, 0]
        bank.service.missed()
        bank.service.looked(has_backlog=False)
        assert bank.grants == [MOST, 0]
        bank.clock.advance(2 * STALE)
        bank.service.missed()
        assert bank.grants == [MOST, 0, MOST]


def test_credit_that_is_withdrawn_unused_is_not_granted_again_at_once() -> None:
    """An open transaction may have used it, and would use more each time that a backlog ends."""
    bank = Bank()
    with bank.granted():
        moments = []
        for _ in range(60):
            bank.service.looked(has_backlog=True)
            bank.clock.advance(STALE / 2)
            bank.service.looked(has_backlog=False)
            bank.service.missed()
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
        bank.service.looked(has_backlog=False)
        bank.service.startService()
        bank.service.missed()
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


def test_jobs_that_cannot_be_read_are_read_later() -> None:
    """A lost connection loses no name; polling would find the jobs after seconds."""
    bank = Bank()
    with bank.granted():
        bank.is_away = True
        bank.name(5)
        bank.is_away = False
        bank.name(6)
        assert bank.performed == [5, 6]


def test_a_withdrawal_that_failed_is_repeated() -> None:
    """Otherwise jobs would go on to be assigned to a node that cannot receive them."""
    bank = Bank()
    with bank.granted():
        bank.is_away = True
        bank.service.looked(has_backlog=True)
        assert bank.grants == [MOST]
        bank.is_away = False
        bank.clock.advance(1)
        assert bank.grants == [MOST, 0]


def test_a_backlog_withdraws_the_credit_however_many_names_arrive() -> None:
    """Of jobs that are too long for a notification."""
    bank = Bank()
    with bank.granted():
        bank.is_away = True
        bank.service.looked(has_backlog=True)
        bank.is_away = False
        bank.name(6)
        assert bank.grants == [MOST, 0]


def test_a_job_that_runs_is_not_run_again() -> None:
    """Even if it is named again after the deduplicator has forgotten it."""
    bank = Bank()
    with bank.granted():
        bank.workers.jobs = {5: {1}}
        bank.bring(5)
        assert bank.performed == []


def test_jobs_that_are_brought_before_the_lease_is_renewed_are_read_then() -> None:
    """They are still assigned to this node."""
    lease = Lease(10.0)
    bank = Bank(lease)
    bank.service.startService()
    bank.bring(5)
    assert bank.asked == []
    lease.register(Identity(1, INCARNATION))
    lease.renew(time.monotonic())
    bank.wakeups.open_credit.ring()
    bank.service.stopService()
    assert bank.performed == [5]


@pytest.fixture
def sharing() -> Bank:
    """A node whose commits are slow."""
    bank = Bank()
    bank.meters.commits.append(SLOW_COMMIT)
    bank.workers.capacity = 1_000
    return bank


def test_where_commits_are_slow_the_node_reads_jobs_that_are_not_named(sharing: Bank) -> None:
    """Soon after a notification, until all transactions have ended that were open then."""
    with sharing.granted():
        assert sharing.grants == [SHARED_CREDIT.most]
        sharing.enqueue(2)
        sharing.open = frozenset({7})
        sharing.bring(1)
        assert sharing.performed == [1, 2]
        sharing.enqueue(3)
        sharing.open = frozenset()
        sharing.clock.advance(LEAST)
        assert sharing.performed == [1, 2, 3]
        assert sharing.asked == []
        sharing.clock.advance(1)
        assert sharing.reads == 2


def test_a_ring_of_the_alarm_does_not_put_a_read_off(sharing: Bank) -> None:
    """Other services ring it once a second, and reads for a transaction may be rarer."""
    with sharing.granted():
        sharing.open = frozenset({7})
        sharing.bring(1)
        sharing.clock.advance(80)
        reads = sharing.reads
        for _ in range(20):
            sharing.clock.advance(1)
            sharing.wakeups.open_credit.ring()
        assert sharing.reads > reads


def test_a_read_that_failed_is_repeated(sharing: Bank) -> None:
    """With the pause of a failed step."""
    with sharing.granted():
        sharing.is_away = True
        sharing.enqueue(2)
        sharing.bring(1)
        assert sharing.performed == [1]
        sharing.is_away = False
        sharing.clock.advance(1)
        assert sharing.performed == [1, 2]


def test_a_job_with_a_number_that_was_passed_is_read_by_its_name(sharing: Bank) -> None:
    """As that of a transaction that stays open for long."""
    with sharing.granted():
        sharing.bring(8)
        sharing.bring(9)
        sharing.enqueued.add(5)
        sharing.name(5)
        assert sharing.asked == [[5]]
        assert sharing.performed == [8, 9, 5]


def test_several_claimed_jobs_are_a_reason_for_shared_credit_only(sharing: Bank) -> None:
    """Elsewhere claims of several jobs cost less."""
    lone = Bank()
    for bank in (lone, sharing):
        bank.service.looked(has_backlog=False)
        bank.service.startService()
        for _ in range(OVERLAPS):
            bank.service.missed(2)
        bank.service.stopService()
    assert (lone.grants, sharing.grants) == ([], [SHARED_CREDIT.most])


@pytest.mark.parametrize("between", ["a second", "a backlog"])
def test_a_batch_of_jobs_is_no_reason_for_shared_credit(between: str, sharing: Bank) -> None:
    """Credit would be withdrawn unused with the next one, and come back late for single jobs."""
    sharing.service.looked(has_backlog=False)
    sharing.service.startService()
    for _ in range(2 * OVERLAPS):
        sharing.service.missed(2)
        if between == "a second":
            sharing.clock.advance(STALE)
        else:
            sharing.service.looked(has_backlog=True)
            sharing.service.looked(has_backlog=False)
    assert sharing.grants == []
    sharing.service.stopService()


def test_shared_credit_may_be_out_for_a_while_after_it_was_withdrawn(sharing: Bank) -> None:
    """Transactions that have taken of it may commit late."""
    lone = Bank()
    with lone.granted(), sharing.granted():
        assert (lone.service.is_shared, sharing.service.is_shared) == (False, True)
        sharing.clock.advance(2 * SHARED_FOR)
        sharing.service.looked(has_backlog=True)
        assert sharing.grants[-1] == 0
        assert sharing.service.is_shared
        sharing.clock.advance(SHARED_FOR)
        assert not sharing.service.is_shared


def test_a_pace_at_which_shared_credit_saves_nothing_ends_it(sharing: Bank) -> None:
    """Higher than for credit of which one transaction at a time takes."""
    half = SHARED_CREDIT.most // 2
    with sharing.granted():
        for pace, grant in ((0.9, SHARED_CREDIT.most), (1.1, 0)):
            for number in range(half):
                sharing.clock.advance(1 / (pace * SHARED_CREDIT.most_a_second))
                sharing.bring(number + round(pace * 1000))
            assert sharing.grants[-1] == grant
    assert SHARED_CREDIT.most_a_second > 2 * LONE_CREDIT.most_a_second


@pytest.mark.parametrize(("a_read", "grants"), [(16, [128, 128]), (17, [128, 0])])
def test_reads_of_many_jobs_each_end_shared_credit(
    a_read: int, grants: list[int], sharing: Bank
) -> None:
    """They take long because the processors are busy: then claims cost less."""
    with sharing.granted():
        for first in range(0, SHARED_CREDIT.most // 2, a_read):
            sharing.clock.advance(0.1)
            sharing.bring(*range(1 + first, 1 + first + a_read))
    assert sharing.grants == grants
