"""Decides, without I/O, how much may be enqueued as assigned and to which node, when a node grants
and withdraws its open credit, and when a master looks for jobs whose transactions sent no
notification.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define, evolve, frozen

from txqueue.policy.placement.room import Room

# Milliseconds of a turn to notify: so many commits, within bounds; the last while none was timed.
COMMITS, SHORTEST_TURN, LONGEST_TURN, UNTIMED_TURN = 8, 10, 250, 100
# A look follows after a commit's time, and then after this part of the time that the youngest of
# the transactions has been open. Seconds: a commit that was not timed, and the least.
PART, UNTIMED, LEAST = 8, 0.005, 0.001


class Stragglers:
    """The open transactions that may have enqueued jobs of which no notification tells.

    Such a transaction has written its job before it found that all masters were awake, or that
    another transaction was about to notify them. So a claim that began after the masters counted as
    asleep, or after that notification, sees the job, or the transaction among the open ones.
    """

    def __init__(self) -> None:
        # Since when each has been open, as far as is known.
        self._since: dict[int, float] = {}
        # Whether enqueues notify this master, and whether there is a reason to look since then.
        self._is_armed = False
        self._has_news = True

    def arm(self) -> None:
        """Note that the master counts as asleep now, after the last claim."""
        self._is_armed = True

    def disarm(self) -> None:
        """Note that the master counts as awake now: a claim follows, whatever is open."""
        self._is_armed, self._has_news = False, True

    def note_claim(self, begun: Collection[int], now: float, *, found: bool) -> None:
        """Note a claim.

        Args:
            begun: The transactions that were open when it began.
            now: The time.
            found: Whether it found jobs, as after a notification.
        """
        has_news = self._is_armed and (found or self._has_news)
        self._since = {
            number: self._since.get(number, now)
            for number in begun
            if has_news or number in self._since
        }
        self._has_news = self._has_news and not has_news

    @property
    def awaited(self) -> Collection[int]:
        """The transactions until whose end the master looks."""
        return self._since.keys()

    def pause(self, now: float, commit_time: float | None) -> float | None:
        """Return the seconds until the next look; None if none is due for these transactions."""
        if not self._since and not self._has_news:
            return None
        youngest = now - max(self._since.values(), default=now)
        return max(LEAST, UNTIMED if commit_time is None else commit_time, youngest / PART)


def turn_length(commit_time: float | None) -> int:
    """Return the milliseconds for which a transaction may keep the turn to notify."""
    if commit_time is None:
        return UNTIMED_TURN
    return min(max(SHORTEST_TURN, round(1000 * COMMITS * commit_time)), LONGEST_TURN)


# The weight that one client may enqueue as assigned before its node grants more credit, and the
# steps in which credit is spread over the nodes.
MOST_CREDIT, CREDIT_STEP = 32, 4
# How many claimed jobs show a rate, and not a burst; and at how many a second credit serves few of
# all jobs.
BURST, STREAM = 100, 1_000


@frozen
class NodeLoad:
    """The load of one node of the cluster, for direct dispatch.

    Attributes:
        node_id: The node.
        incarnation: The node's run.
        outstanding: The weight of the jobs that the node has got and not yet finished, plus the
            weight granted to clients as credit.
        capacity: The weight that the node can take in all.
    """

    node_id: int
    incarnation: int
    outstanding: int
    capacity: int

    @property
    def fullness(self) -> float:
        """The node's load as a fraction of its capacity."""
        return self.outstanding / self.capacity if self.capacity > 0 else 1.0


def credit_limit(nodes: Sequence[NodeLoad], clients: int) -> int:
    """Return the credit that each client may have: an equal share of the nodes, up to a limit."""
    total = sum(node.capacity for node in nodes)
    return min(MOST_CREDIT, total // max(1, clients))


def new_credit(nodes: Sequence[NodeLoad], weight: int) -> dict[int, int]:
    """Spread new credit over the nodes, each step to the least loaded node that has room for it.

    Args:
        nodes: The loads of the nodes, first that of the granting node, which wins ties.
        weight: The largest weight to spread.

    Returns:
        The credit by incarnation; less than `weight` in all if the nodes have less room.
    """
    grants: dict[int, int] = {}
    loads = list(nodes)
    while weight > 0 and loads:
        step = min(CREDIT_STEP, weight)
        chosen = min(loads, key=lambda node: node.fullness)
        if chosen.outstanding + step > chosen.capacity:
            loads.remove(chosen)
            continue
        grants[chosen.incarnation] = grants.get(chosen.incarnation, 0) + step
        loads[loads.index(chosen)] = evolve(chosen, outstanding=chosen.outstanding + step)
        weight -= step
    return grants


# The most open credit of a node that is alone, and while there are others: that is used up soon, so
# that the nodes take turns.
MOST_OPEN, TURN_OPEN = 32, 8
# Jobs a second, and at once, from which on they are claimed, many at a time, which costs less.
MOST_A_SECOND, MOST_AT_ONCE = 1_000, 32


def open_credit(room: Room, *, is_alone: bool) -> int:
    """Return how many jobs any session may enqueue as assigned to a node.

    Args:
        room: What the node's workers can still take.
        is_alone: Whether no other node can take the same jobs.
    """
    return min(MOST_OPEN if is_alone else TURN_OPEN, room.free // 2)


def is_too_fast(jobs: int, arrivals: int, seconds: float) -> bool:
    """Return whether jobs were enqueued too fast to be assigned one by one.

    Args:
        jobs: How many were enqueued as assigned.
        arrivals: At how many moments notifications have brought them.
        seconds: The time since they could be.
    """
    return jobs > seconds * MOST_A_SECOND or jobs > arrivals * MOST_AT_ONCE


def outpaces_credit(claimed: int, seconds: float) -> bool:
    """Return whether so many jobs are claimed that credit for some of them saves nothing.

    Args:
        claimed: How many the node has claimed.
        seconds: The time since there is credit.
    """
    return claimed >= BURST and claimed > seconds * STREAM


# Seconds after which credit may be granted again, even if little of it is known to be used up:
# transactions that were rolled back have used it, too, and another node may have replaced it. But
# if an open transaction has used it, that would collect more and more: so they double each time, up
# to the second number. Jobs that come too fast get no credit for the first, and for twice as long
# each time that they still do, up to the third.
STALE, LONGEST, LONGEST_REST = 1.0, 60.0, 16.0


@define
class CreditGrants:
    """The open credit of a node: what it has granted, and how jobs have come since.

    Attributes:
        has_backlog: Whether the last claim left ready jobs, which others must not overtake.
        granted: The credit as this node has granted it last; 0 for none.
        is_missed: Whether jobs were claimed that might have taken of a credit that is used up.
    """

    has_backlog: bool = True
    granted: int = 0
    is_missed: bool = False
    # How much of the credit is known to be used up, and at how many moments jobs have arrived.
    _spent: int = 0
    _arrivals: int = 0
    # How many jobs this node has claimed since it granted the credit.
    _claimed: int = 0
    _granted_at: float = float("-inf")
    _stale_at: float = float("-inf")
    _rests_until: float = float("-inf")
    _patience: float = STALE
    _rest: float = STALE

    def add_spent(self, jobs: int) -> None:
        """Note jobs that have taken of the credit, and arrived together."""
        self._spent += jobs
        self._arrivals += 1

    def on_miss(self, now: float) -> bool:
        """Note a single job that was claimed; return whether credit might have spared that."""
        is_used_up = self._spent >= self.granted > 0 or now >= self._stale_at
        is_new = is_used_up and not self.is_resting(now)
        self.is_missed = self.is_missed or is_new
        return is_new

    def add_claimed(self, jobs: int, now: float) -> bool:
        """Note how many jobs a claim took; return whether they come too fast for the credit."""
        self._claimed += jobs
        return self.granted > 0 and self.is_outpaced(now)

    def on_backlog(self, *, has_backlog: bool) -> bool:
        """Note whether a claim has left ready jobs; return whether that ends the credit."""
        self.has_backlog = has_backlog
        return has_backlog and self.granted > 0

    @property
    def is_half_spent(self) -> bool:
        """Whether so much is used up that more may be granted."""
        return 2 * self._spent >= self.granted > 0

    def is_outpaced(self, now: float) -> bool:
        """Whether many jobs have been claimed since the credit was granted."""
        return outpaces_credit(self._claimed, now - self._granted_at)

    def is_resting(self, now: float) -> bool:
        """Whether there is no credit yet for jobs that came too fast."""
        return now < self._rests_until

    def judge_pace(self, now: float) -> None:
        """Decide whether jobs come too fast for credit, and for how long they get none."""
        is_flood = self.is_outpaced(now) or is_too_fast(
            self._spent, self._arrivals, now - self._granted_at
        )
        if is_flood:
            self._rests_until = max(self._rests_until, now + self._rest)
        if not self.granted:
            return
        self._rest = min(2 * self._rest, LONGEST_REST) if is_flood else STALE

    def grant(self, offer: int, now: float, *, is_renewed: bool) -> bool:
        """Note that so much is granted now, 0 to withdraw it; return whether it need be written.

        Args:
            offer: How much the node may grant.
            now: The time.
            is_renewed: Whether credit of which half is spent is granted again.
        """
        if offer and not (self.is_missed or is_renewed):
            return False
        self.is_missed = False
        if not offer and not self.granted:
            return False
        is_used_up = 2 * self._spent >= self.granted
        if self.granted and not self.is_outpaced(now):
            self._patience = STALE if is_used_up else min(2 * self._patience, LONGEST)
        self.granted, self._granted_at = offer, now
        self._spent = self._arrivals = self._claimed = 0
        self._stale_at = now if is_used_up and not offer else now + self._patience
        return True

    def withhold(self, now: float) -> None:
        """Note that nothing was granted, as another node's credit is in use."""
        self.granted, self._stale_at = 0, now + self._patience
