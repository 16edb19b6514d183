"""Decides, without I/O, when a node reads which jobs that were enqueued by its open credit."""

from __future__ import annotations

from collections.abc import Collection

from attrs import define, field, frozen

from txqueue.policy.placement.stragglers import Stragglers

__all__ = ["CreditReads", "CreditState"]

# Seconds after which reads pass over the numbers of a transaction that is still open.
LONGEST_OPEN = 1.0
# A read does not commit, so others follow sooner than claims would: after as long as the last
# notification is ago, up to this part of a commit.
COMMIT_PARTS = 2


@frozen
class CreditState:
    """The state of the database at a read of the jobs that took of a node's open credit.

    Attributes:
        taken: How many had taken of the credit before the read; None if it is another node's.
        drawn: The last number of an assignment that was drawn after that moment of the read.
        open: The transactions that were open when the read began.
    """

    taken: int | None
    drawn: int
    open: frozenset[int]


@frozen
class _Window:
    """A read, whose transactions have not yet all ended."""

    drawn: int = 0
    open: frozenset[int] = frozenset()
    at: float = float("-inf")


@define
class CreditReads:
    """The reads of jobs that took of a node's open credit, of which some sent no notification.

    Such a job's transaction has begun to write, drawn the job's number and taken of the credit, in
    this order, before it found that another transaction was about to notify the node. So a read
    after that notification returns the job, or counts it as taken and lists its transaction as
    open. The node reads again until no job is missing, or all these transactions have ended.

    Attributes:
        after: A read need not return jobs whose numbers are not greater.
    """

    after: int = 0
    _known: set[int] = field(factory=set)
    _window: _Window = _Window()
    # Open transactions whose jobs may have lower numbers than `after`, and what it was before.
    _passed: dict[int, int] = field(factory=dict)
    _stragglers: Stragglers = field(factory=Stragglers)
    # The state from which on jobs are counted, and how many; None after a grant. The transactions
    # that were open then may have taken of the credit before.
    _start: CreditState | None = None
    _counted: int = 0
    _uncounted: frozenset[int] = frozenset()
    _is_notified: bool = False
    _notified_at: float = float("-inf")

    def __attrs_post_init__(self) -> None:
        self._stragglers.armed()

    @property
    def known(self) -> list[int]:
        """The numbers greater than `after` that the node has."""
        return list(self._known)

    def notified(self) -> None:
        """Note that a transaction has notified the node of its job."""
        self._is_notified = True

    def brought(self, numbers: Collection[int]) -> None:
        """Note jobs with these numbers, which notifications have brought."""
        new = {number for number in numbers if number > self.after} - self._known
        self._known |= new
        if self._start is not None:
            self._count(new, self._start)

    def granted(self) -> None:
        """Note that credit was granted: what was taken of it is counted from the next read on."""
        self._start = None

    def read(self, numbers: Collection[int], state: CreditState, now: float) -> None:
        """Note a read that returned jobs with these numbers."""
        # Notifications may have brought some of them while the read ran.
        new = set(numbers) - self._known
        self._known |= new
        begun = state.open if self._is_missing(new, state) else self._uncounted & state.open
        self._uncounted &= state.open
        self._stragglers.claimed(begun, now, found=self._is_notified)
        if self._is_notified:
            self._is_notified, self._notified_at = False, now
        self._move_on(state, now)
        self._go_back(state)

    def _is_missing(self, numbers: Collection[int], state: CreditState) -> bool:
        """Whether jobs may have taken of the credit that were not read."""
        start = self._start
        if start is None or start.taken is None or state.taken is None:
            self._start, self._counted, self._uncounted = state, 0, state.open
            return True
        self._count(numbers, start)
        return state.taken - start.taken > self._counted

    def _count(self, numbers: Collection[int], start: CreditState) -> None:
        self._counted += sum(number > start.drawn for number in numbers)

    def _move_on(self, state: CreditState, now: float) -> None:
        window = self._window
        left = window.open & state.open
        if left and now - window.at < LONGEST_OPEN:
            return
        for number in left.intersection(self._stragglers.awaited):
            self._passed.setdefault(number, self.after)
        self.after, self._window = window.drawn, _Window(state.drawn, state.open, now)
        self._known = {number for number in self._known if number > self.after}

    def _go_back(self, state: CreditState) -> None:
        """Have the next read begin where it finds the jobs of transactions that ended late."""
        ended = [after for number, after in self._passed.items() if number not in state.open]
        if ended:
            self._passed = {each: self._passed[each] for each in self._passed.keys() & state.open}
            self.after = min(ended)
            self._window = _Window(self.after)
            # That read returns jobs again that were counted.
            self._start, self._is_notified = None, True

    def pause(self, now: float, commit_time: float | None) -> float | None:
        """Return the seconds until the next read; None if none is due."""
        if self._is_notified:
            return 0.0
        if commit_time is None:
            return self._stragglers.pause(now, None)
        # Most of the transactions that the next flush has released end with the one that notified.
        since = now - self._notified_at
        return self._stragglers.pause(now, min(commit_time / COMMIT_PARTS, since))
