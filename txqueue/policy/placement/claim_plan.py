"""Plans, without I/O, what a node claims next: where among the ready jobs a claim begins, how much
it asks for, which heavy jobs it leaves to other nodes, and how long the node waits before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from attrs import define, evolve, field, frozen

from txqueue.model.assignment import Assignment
from txqueue.policy.placement.credit import Stragglers
from txqueue.policy.placement.idling import LONGEST_IDLE, WakePlace, idle_delay
from txqueue.policy.placement.room import Room, claim_delay, is_stream, ordinary_jobs

# The place of a job among the ready ones: its rank, as text of the server, and its number.
JobPlace = tuple[str, int]
FIRST_PLACE: JobPlace = ("-infinity", 0)
REWIND = 0.1
"""For so many seconds, claims go on at the place that the last one reached, to skip the dead rows
of claimed jobs. A new job of a smaller rank may be claimed that much later. The time is longer
while many ready jobs are of types that only other nodes run, or an old snapshot keeps many dead
rows; then claims that left no job go on as well, for as long as a look back is worth.
"""
# Claims that read much which the node may not take spend no more than this part of the time on it,
# but look back once in LONGEST_REWIND seconds.
SEARCH_SHARE, LONGEST_REWIND = 0.1, 1.0
# The rank that a claim returns if it left jobs because a tenant's or queue's share was used up.
ANYWHERE = FIRST_PLACE[0]


class ClaimPlace:
    """Where claims go on, and when one goes back to the first rank.

    Attributes:
        rewound_at: When the last claim from the first rank began.
    """

    def __init__(self) -> None:
        self.rewound_at = float("-inf")
        self._reached: JobPlace | None = None
        self._has_left = False
        self._interval = 0.0
        # How long the last claim from the first rank searched.
        self._searched = 0.0
        # From when on a claim goes back to jobs that have become ready.
        self._goes_back_from = float("-inf")

    @property
    def is_searching(self) -> bool:
        """Whether a claim from the first rank had to read much that the node may not take."""
        return self._interval > 0

    @property
    def rewind_due(self) -> float:
        """When a claim goes back to the first rank."""
        least = REWIND if self._has_left else 0.0
        return self.rewound_at + max(least, self._interval)

    @property
    def look_due(self) -> float:
        """When to look from the first rank on again if no jobs were left."""
        return self.rewound_at + max(REWIND, self._interval)

    def rewind(self) -> None:
        """Have the next claim begin at the first rank."""
        self.rewound_at = float("-inf")

    def next(self, now: float, freed: JobPlace | None) -> JobPlace | None:
        """Return where a claim begins; None for the first rank.

        Args:
            now: The time.
            freed: The first job that has become ready since the last claim.
        """
        if self._reached is None or now >= self.rewind_due:
            self.rewound_at = now
            return None
        if freed is not None and self.is_searching and now >= self._goes_back_from:
            return earlier(self._reached, freed)
        return self._reached

    def note_claim(
        self,
        begun: JobPlace | None,
        reached: JobPlace | None,
        passed: JobPlace | None,
        *,
        searched: float,
        took_jobs: bool,
        now: float,
    ) -> None:
        """Note a claim.

        Args:
            begun: Where it began.
            reached: Where it left ready jobs; None if it left none.
            passed: Where the next one may go on if this one searched.
            searched: The seconds that it spent on what the node may not take.
            took_jobs: Whether it took jobs.
            now: The time after it.
        """
        if begun is None:
            confirmed = confirmed_search(searched, self._searched, took_jobs=took_jobs)
            self._interval = rewind_interval(confirmed)
            self._searched = searched
        else:
            self._goes_back_from = now + rewind_interval(searched)
        self._has_left = reached is not None
        if reached is not None:
            self._reached = None if reached[0] == ANYWHERE else reached
        elif not self.is_searching:
            self._reached = None
        elif begun is None:
            self._reached = passed or self._reached
        elif not searched:
            # Others that become ready may be near the place to which this claim went back.
            self._reached = begun


def rewind_interval(searched: float) -> float:
    """Return the seconds between two claims that read the ready jobs from the first one on.

    Args:
        searched: The seconds that the last such claim spent on what the node may not take; 0 if
            it had not to search.
    """
    return min(searched / SEARCH_SHARE, LONGEST_REWIND)


def confirmed_search(searched: float, before: float, *, took_jobs: bool) -> float:
    """Return the seconds that a claim is believed to have spent on what the node may not take.

    On a busy server a claim that takes jobs is often interrupted for as long, which would make jobs
    of a smaller rank wait. What must be read past is there again at the next look back.

    Args:
        searched: The seconds by the claim.
        before: The seconds by the last claim from the first job on before it.
        took_jobs: Whether the claim took jobs.
    """
    return min(searched, before) if took_jobs else searched


def earlier(one: JobPlace, other: JobPlace) -> JobPlace:
    """Return the first of two places; the first of all if their ranks cannot be compared."""
    try:
        return min(one, other, key=_key)
    except (TypeError, ValueError):
        # Not each moment of the server is one of Python, nor in this form behind every pooler.
        return FIRST_PLACE


def _key(place: JobPlace) -> tuple[datetime, int]:
    return datetime.fromisoformat(place[0]), place[1]


# By how much claims shrink each time, and to which part at most; each one too many costs a
# statement's patience. They double again after one that took less than QUICK seconds.
SHRINKAGE, LEAST, QUICK = 8, 4096, 1.0


@define
class ClaimShare:
    """The part of its queues and of the workers' room that a node's next claim asks for.

    Args:
        all_queues: The queues that the node serves.

    Attributes:
        parts: How many claims ask for all queues, one after the other.
    """

    all_queues: Sequence[str]
    parts: int = field(default=1, init=False)
    _next_part: int = field(default=0, init=False)

    @property
    def is_part(self) -> bool:
        """Whether a claim asks for less than there is."""
        return self.parts > 1

    def shrink(self) -> None:
        """Have claims ask for less, as one took too long."""
        self.parts = min(self.parts * SHRINKAGE, LEAST)

    def note_time(self, seconds: float) -> None:
        """Have claims ask for more if one was answered quickly."""
        if seconds < QUICK:
            self.parts = max(1, self.parts // 2)

    def next_queues(self) -> Sequence[str]:
        """Return the queues of the next claim: of a part, others each time."""
        self._next_part += 1
        parts = min(self.parts, len(self.all_queues))
        return self.all_queues[self._next_part % parts :: parts]

    def of(self, room: Room) -> Room:
        """Return the room of the next claim, with space for the heaviest job all the same."""
        free = max(room.free // self.parts, min(room.free, room.largest))
        return evolve(room, free=free, ahead=min(room.ahead, free)) if self.is_part else room


# The least difference of loads for which a node leaves a heavy job to another one, as in
# has_lighter_node().
MARGIN = 0.1
# Seconds after which a job that no other node has claimed is not left any longer, and for which
# this node then leaves no jobs: the others may be unable to, for a reason that it does not know.
PATIENCE, REST = 2.0, 10.0


class HeavyJobs:
    """Whether claims leave heavy jobs to less loaded nodes; lighter ones go ahead of them."""

    def __init__(self) -> None:
        self._left: tuple[int, float] | None = None
        self._rests_until = float("-inf")

    def compared_load(self, load: float, now: float) -> float | None:
        """Return the load with which a claim compares those of other nodes.

        Args:
            load: The weight of the jobs that this node's workers hold, as a fraction of their
                capacity.
            now: The time.

        Returns:
            The load; None if the claim leaves no job to others.
        """
        return load if load > MARGIN and now >= self._rests_until else None

    def note(self, left_job: int | None, now: float) -> bool:
        """Note the first job that a claim has left to others; return whether it is a new one."""
        if left_job is None:
            self._left = None
        elif self._left is None or self._left[0] != left_job:
            self._left = (left_job, now)
            return True
        elif now - self._left[1] >= PATIENCE:
            self._rests_until = now + REST
        return False

    def pause(self, pause: float, now: float) -> float:
        """Return the pause before the next claim, at most until this node takes the job itself."""
        return pause if self._left is None else min(pause, max(0.0, self._left[1] + PATIENCE - now))


# A claim promotes only jobs that became due since this long before the previous claim, to skip the
# dead rows of earlier ones. Once in FULL_PROMOTION seconds it promotes all due jobs, as a
# transaction may commit a due job late.
PROMOTED_MARGIN = timedelta(minutes=1)
FULL_PROMOTION = 10.0
# Seconds between a claim that took all ready jobs and the next, so that its jobs are sent to the
# workers first: both go through the reactor, and the claim would go ahead of them.
BREATH = 0.001
# A full claim that is due in less than this follows at once, while no job waits for it.
NEARLY = REWIND / 4
# A job is ordinary if it has no group, a weight of 1 and a small payload, and is no suspect.
# FEW_QUEUES is the most queues of a node that makes claims of ordinary jobs. After one that met
# another job, the node makes none for ORDINARY_REST seconds.
FEW_QUEUES = 8
ORDINARY_REST = 1.0
# Seconds after which such a claim has read other nodes' jobs in the current lane, too; there is no
# other one until the next claim of any jobs.
SLOW = 0.01
_NEVER = float("-inf")


@frozen
class Claim:
    """The result of a claim.

    Attributes:
        assignments: The jobs taken.
        due_in: Seconds until the next job that waits for its ``not_before`` is due; None if no
            job does.
        seen_at: The time by the database's clock; jobs due by then are promoted.
        reached: The rank, as text, and the job up to which all ready jobs are claimed; None if
            no ready job is left.
        last_tenant: The tenant after which the next claim continues; None if every tenant had a
            turn.
        searched: The seconds that the claim spent on reading ready jobs that the node may not take,
            and rows that only an old snapshot keeps.
        passed: Where the next claim may go on if this one searched and no job is left that the node
            may take: the rank, as text, and the number of the first job that was ready, or of the
            last one that is left.
        left_job: The first heavy job that was left to a less loaded node.
        open: The transactions that were open when the claim began.
    """

    assignments: list[Assignment]
    due_in: float | None
    seen_at: datetime
    reached: JobPlace | None = None
    last_tenant: str | None = None
    searched: float = 0.0
    passed: JobPlace | None = None
    left_job: int | None = None
    open: frozenset[int] = frozenset()

    @property
    def jobs(self) -> int:
        """How many jobs the claim took."""
        return sum(assignment.jobs for assignment in self.assignments)

    @property
    def is_quiet(self) -> bool:
        """Whether the master may sleep: the claim took nothing, or the only ready job."""
        return self.jobs == 0 or (self.jobs == 1 and self.reached is None)

    @property
    def is_cut_short(self) -> bool:
        """Whether the claim has stopped at a bound of its own, or more jobs are due now."""
        return self.due_in is not None and self.due_in <= 0


@frozen
class FullClaim:
    """What a claim of any jobs asks for.

    Attributes:
        queues: The queues.
        room: What the workers can take of it.
        since: Jobs that became due since then are promoted; None for all due ones.
        reached: Where among the ready jobs it begins; None for the first one.
        after_tenant: The tenant after which it continues.
        load: The load to compare with those of other nodes; None if it leaves no job to them.
    """

    queues: Sequence[str]
    room: Room
    since: datetime | None
    reached: JobPlace | None
    after_tenant: str | None
    load: float | None


@define(eq=False, slots=False)
class ClaimPlan:
    """What a node claims next, and when; all times are of one monotonic clock, in seconds.

    A full claim takes any jobs. One of ordinary jobs costs less, and follows one that left none.

    Args:
        queues: The queues that the node serves.
    """

    _queues: Sequence[str]

    def __attrs_post_init__(self) -> None:
        self._share = ClaimShare(self._queues)
        self._place = ClaimPlace()
        self._heavy_jobs = HeavyJobs()
        self._stragglers = Stragglers()
        self._claimed_at = self._promoted_all_at = _NEVER
        self._since: datetime | None = None
        self._last_tenant: str | None = None
        self._empty_claims = 0
        self._wants_room = False
        # When the next full claim is due; until then, one of ordinary jobs will do.
        self._full_claim_at = self._ordinary_from = _NEVER
        # Whether the claims before took so many new jobs that the next ones do, too.
        self._in_stream = False

    @property
    def parts(self) -> int:
        """How many claims ask for all queues and the room, one after the other."""
        return self._share.parts

    def delay(self, room: Room, now: float) -> float | None:
        """Return the seconds until the next claim may begin; None until workers have room."""
        self._wants_room = True
        return claim_delay(room, now - self._claimed_at)

    def is_due(self, room: Room, now: float) -> bool:
        """Tell whether new room is a reason to claim: the last one left jobs, and none is due later
        because all workers have work.
        """
        has_work = room.is_stocked and claim_delay(room, now - self._claimed_at) != 0
        return self._wants_room and not has_work

    def begin(self, now: float) -> bool:
        """Begin a claim; return whether one of ordinary jobs will do: only new ones are ready."""
        self._claimed_at = now
        return self._ordinary_from <= now < self._full_claim_at

    def ordinary_jobs(self, room: Room) -> int:
        """Return how many jobs a claim of ordinary jobs takes at most."""
        return ordinary_jobs(room, in_stream=self._in_stream)

    def full_claim(self, room: Room, load: float, freed: JobPlace | None) -> FullClaim:
        """Return what a full claim asks for.

        Args:
            room: What the workers can take.
            load: The weight that they hold, as a fraction of their capacity.
            freed: The first job that has become ready since the last claim.
        """
        now = self._claimed_at
        return FullClaim(
            queues=self._share.next_queues(),
            room=self._share.of(room),
            since=self._promoted_since(),
            reached=None if self._share.is_part else self._place.next(now, freed),
            after_tenant=self._last_tenant,
            load=self._heavy_jobs.compared_load(load, now),
        )

    def _promoted_since(self) -> datetime | None:
        if self._claimed_at - self._promoted_all_at < FULL_PROMOTION:
            return self._since
        self._promoted_all_at = self._claimed_at
        return None

    def shrink(self) -> None:
        """Have claims ask for less, as one took too long."""
        self._share.shrink()
        self._place.rewind()
        self._full_claim_at = _NEVER

    def rest(self) -> None:
        """Forget how many claims found nothing: the node stops claiming for now."""
        self._empty_claims = 0

    def note_ordinary(self, jobs: int, begun: Collection[int], now: float) -> None:
        """Note a claim of ordinary jobs: how many it took, and the transactions open before it."""
        if self._place.is_searching and now - self._claimed_at > SLOW:
            self._ordinary_from = self._place.look_due
        self._stragglers.note_claim(begun, now, found=jobs > 0)
        self._wants_room = False

    def is_single(self, jobs: int) -> bool:
        """Tell whether so few jobs might have been enqueued as assigned instead."""
        return jobs == 1 or (jobs > 0 and not self._in_stream)

    def pause_after_ordinary(
        self, jobs: int, now: float, commit_time: float | None, *, is_full: bool, is_ordinary: bool
    ) -> float:
        """Return the seconds from a claim of ordinary jobs to the next claim.

        Args:
            jobs: How many it took.
            now: The time.
            commit_time: About how many seconds a commit takes; None if that is not known.
            is_full: Whether these are as many as it could take.
            is_ordinary: Whether it met ordinary jobs only.
        """
        if not is_ordinary:
            self._ordinary_from = now + ORDINARY_REST
            self._place.rewind()
            return 0.0
        if is_full or (self._in_stream and not is_stream(jobs)):
            # Only a full claim decides whether the master may sleep.
            self._full_claim_at = _NEVER
            return BREATH
        if self._in_stream:
            return BREATH
        self._full_claim_at = min(self._full_claim_at, self._place.look_due)
        if self._full_claim_at - now < NEARLY:
            self._full_claim_at = _NEVER
            return BREATH
        return max(BREATH, self._before_stragglers(self._full_claim_at - now, now, commit_time))

    def note_full(self, asked: FullClaim, claim: Claim, now: float) -> tuple[bool, bool | None]:
        """Note a full claim.

        Returns:
            Whether other nodes are to be woken for a job that was left to them; and whether ready
            jobs are left, None if the claim does not tell.
        """
        self._since = claim.seen_at - PROMOTED_MARGIN
        self._last_tenant = claim.last_tenant
        if self._share.is_part:
            return False, None
        is_left_to_others = self._heavy_jobs.note(claim.left_job, now)
        self._place.note_claim(
            asked.reached,
            claim.reached,
            claim.passed,
            searched=claim.searched,
            took_jobs=bool(claim.assignments),
            now=now,
        )
        self._full_claim_at = _NEVER
        self._stragglers.note_claim(claim.open, now, found=claim.jobs > 0)
        self._in_stream = self._may_be_ordinary(claim) and is_stream(claim.jobs)
        has_backlog = claim.reached is not None
        return is_left_to_others, has_backlog if has_backlog or asked.reached is None else None

    def pause_after_full(
        self,
        asked: FullClaim,
        claim: Claim,
        now: float,
        *,
        commit_time: float | None = None,
        nodes: WakePlace | None = None,
        slowest: float = LONGEST_IDLE,
    ) -> float:
        """Return the seconds from a full claim to the next claim, unless the master is woken.

        Args:
            asked: What it asked for.
            claim: What it found.
            now: The time.
            commit_time: About how many seconds a commit takes; None if that is not known.
            nodes: The node's place among those that can take the same jobs; None if unknown.
            slowest: The most seconds between two claims that find nothing.
        """
        if self._share.is_part:
            took = now - self._claimed_at
            self._share.note_time(took)
            return BREATH if claim.assignments else max(BREATH, took)
        if not claim.is_quiet:
            return self._pause_in_work(claim, now)
        if claim.is_cut_short:
            self._empty_claims = 0
            return 0.0
        if asked.reached is not None and not self._place.is_searching:
            return 0.0
        # The remaining jobs are too heavy for the room, or left to another node.
        self._wants_room = claim.reached is not None
        self._empty_claims = 1 if claim.assignments else self._empty_claims + 1
        pause = self._heavy_jobs.pause(idle_delay(self._empty_claims, nodes, slowest), now)
        if claim.due_in is not None:
            pause = min(pause, claim.due_in)
        if self._place.is_searching and asked.reached is not None:
            pause = min(pause, max(0.0, self._place.rewind_due - now))
        if self._may_be_ordinary(claim):
            self._full_claim_at = now + pause
        self._stragglers.arm()
        return self._before_stragglers(pause, now, commit_time)

    def _pause_in_work(self, claim: Claim, now: float) -> float:
        """Return the seconds to the next claim after one that took several jobs or left some."""
        self._stragglers.disarm()
        self._empty_claims = 0
        if self._in_stream:
            due = float("inf") if claim.due_in is None else now + claim.due_in
            self._full_claim_at = min(due, self._place.rewound_at + REWIND)
        return 0.0 if claim.reached else BREATH

    def _may_be_ordinary(self, claim: Claim) -> bool:
        """Whether all jobs that are ready from now on are new, and of few queues."""
        return claim.reached is None and len(self._queues) <= FEW_QUEUES

    def _before_stragglers(self, pause: float, now: float, commit_time: float | None) -> float:
        """Return the seconds until the next claim, which may be due for open transactions."""
        due = self._stragglers.pause(now, commit_time)
        return pause if due is None else min(pause, due)
