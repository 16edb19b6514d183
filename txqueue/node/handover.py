"""Hands work from node to node: to an idle one that asks, from a full one, from one that drains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from txqueue.node.periodic import Periodic
from txqueue.policy.balancing import NodeReport, Transfer, Unstarted, drain_shares, overflow, theft
from txqueue.store.functions import Chunk, Passed, StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["Handover", "Holders", "Neighbours"]

# Seconds between two looks at the peers; between two while work comes in; while there are none.
LOOK, EAGER, ALONE = 0.1, 0.02, 0.5
# What is beyond a worker's room for so long did not start in a moment: it goes back; seconds.
LASTING = 0.3
# Seconds for which a peer is not asked again after it had nothing that suited this node.
FIRST_REST, LONGEST_REST = 0.2, 10.0
# Jobs passed on by one statement.
MOST_JOBS = 1_000


class Holders(Protocol):
    """The holder of this node's jobs."""

    async def take_back(self, most: int | None = None) -> Unstarted:
        """Have them start nothing of what they hold, or not the last of it up to a weight."""

    def perform(self, chunks: Sequence[Chunk]) -> None:
        """Perform chunks."""


class Neighbours(Protocol):
    """The service that knows the peers."""

    @property
    def reports(self) -> list[NodeReport]:
        """What they say of themselves."""

    def forward(self, incarnation: int, assignments: Sequence[int]) -> None:
        """Tell one that jobs are assigned to it."""

    async def steal(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Ask one for unstarted work."""


class Handover(Periodic):
    """Evens the work out between this node and its peers; each transfer is one fenced statement.

    Args:
        clock: Times the looks.
        engine: The stored functions.
        incarnation: Returns the incarnation of this run.
        workers: The worker processes, which hold this node's jobs.
        peers: Returns the service that knows the peers; None if this node has none.
        load: Returns what this node says of itself.
        is_idle: Whether the last claim found nothing.
        accept: Notes that an assignment arrived; says whether for the first time.
        give_back: Called with an assignment and its jobs that no peer takes.
    """

    name = "handoff"

    def __init__(
        self,
        clock: Clock,
        engine: StoredFunctions,
        *,
        incarnation: Callable[[], int],
        workers: Holders,
        peers: Callable[[], Neighbours | None],
        load: Callable[[], NodeReport],
        is_idle: Callable[[], bool],
        accept: Callable[[int], bool],
        give_back: Callable[[int, list[int]], None],
    ) -> None:
        super().__init__(clock)
        self._clock = clock
        self._engine = engine
        self._incarnation = incarnation
        self._workers = workers
        self._peers = peers
        self._load = load
        self._is_idle = is_idle
        self._accept = accept
        self._give_back = give_back
        self._is_eager = False
        self._excess = (float("inf"), 0)
        self._rests: dict[int, tuple[float, float]] = {}

    def room_made(self) -> None:
        """Workers can be handed more: ask again, if the last time brought something."""
        if self._is_eager:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Look whether work should go to a peer or back to the queue, or come from a peer."""
        neighbours, mine = self._peers(), self._load()
        peers = self._rested(neighbours.reports) if neighbours is not None else []
        self._is_eager = False
        if lasting := self._lasting_excess(mine.excess):
            self._return(await self._workers.take_back(lasting))
        if neighbours is None or not peers or mine.is_draining:
            return LOOK if mine.excess else ALONE
        if shares := overflow(mine, peers):
            unstarted = await self._workers.take_back(sum(share.weight for share in shares))
            await self._share_out(unstarted, shares)
        elif self._is_idle() and (taken := theft(mine, peers)) is not None:
            assignments, _ = await neighbours.steal(taken.incarnation, taken.weight)
            await self._perform(assignments)
            self._note(taken.incarnation, is_in_vain=not assignments)
            self._is_eager = bool(assignments)
        return EAGER if self._is_eager else LOOK

    def _lasting_excess(self, excess: int) -> int:
        """Return the weight that workers hold beyond their room, and did a moment ago."""
        now = self._clock.seconds()
        since, least = self._excess
        if not excess:
            self._excess = (float("inf"), 0)
        elif not least:
            self._excess = (now, excess)
        elif now - since < LASTING:
            self._excess = (since, min(least, excess))
        else:
            self._excess = (float("inf"), 0)
            return min(least, excess)
        return 0

    async def surrender(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Pass what waits here, up to a weight, on to a node that asks; it is told by the answer.

        Returns:
            The assignments that are the other's now, and their weight.
        """
        waits = self._load().ahead
        if waits == 0:
            return [], 0
        unstarted = await self._workers.take_back(min(weight, waits))
        passed = await self._passed(incarnation, unstarted)
        return [each.assignment for each in passed], sum(each.weight for each in passed)

    async def pass_all(self) -> None:
        """Pass all that is not started on to peers with room, and give the rest back."""
        neighbours = self._peers()
        unstarted = await self._workers.take_back()
        peers = neighbours.reports if neighbours is not None else []
        await self._share_out(unstarted, drain_shares(unstarted.weight, peers))

    async def _share_out(self, unstarted: Unstarted, shares: Sequence[Transfer]) -> None:
        """Pass jobs on in shares, and give the rest back."""
        try:
            for share in shares:
                part, unstarted = unstarted.cut(share.weight)
                passed = await self._pass_on(share.incarnation, part)
                self._note(share.incarnation, is_in_vain=bool(part.jobs) and not passed)
        finally:
            self._return(unstarted)

    async def _pass_on(self, incarnation: int, unstarted: Unstarted) -> list[Passed]:
        """Pass jobs on to a node and tell it."""
        passed = await self._passed(incarnation, unstarted)
        neighbours = self._peers()
        if neighbours is not None:
            neighbours.forward(incarnation, [each.assignment for each in passed])
        return passed

    async def _passed(self, incarnation: int, unstarted: Unstarted) -> list[Passed]:
        """Pass jobs on to a node; what does not suit it is given back."""
        parts = self._workers_of(incarnation)
        passed: list[Passed] = []
        try:
            for batch in unstarted.batches(MOST_JOBS):
                ids = [job_id for _, job_id in batch.jobs]
                passed += await self._engine.pass_on(
                    self._incarnation(), list(batch.ids), ids, incarnation, parts
                )
        finally:
            # Of what was passed on after all, though no answer came, this gives nothing back.
            gone = {job_id for each in passed for job_id in each.ids}
            self._return(unstarted.without(gone))
        return passed

    async def _perform(self, assignments: Sequence[int]) -> None:
        for assignment in assignments:
            chunks = await self._engine.direct_jobs(self._incarnation(), assignment)
            self._workers.perform([chunk for chunk in chunks if self._accept(chunk.assignment)])

    def _return(self, unstarted: Unstarted) -> None:
        for assignment, ids in unstarted.ids.items():
            self._give_back(assignment, ids)

    def _workers_of(self, incarnation: int) -> int:
        neighbours = self._peers()
        reports = neighbours.reports if neighbours is not None else []
        return max([1, *(each.workers for each in reports if each.incarnation == incarnation)])

    def _rested(self, reports: Sequence[NodeReport]) -> list[NodeReport]:
        now = self._clock.seconds()
        never = (float("-inf"), 0.0)
        return [each for each in reports if self._rests.get(each.incarnation, never)[0] <= now]

    def _note(self, incarnation: int, *, is_in_vain: bool) -> None:
        if not is_in_vain:
            self._rests.pop(incarnation, None)
            return
        rest = min(2 * self._rests.get(incarnation, (0.0, FIRST_REST / 2))[1], LONGEST_REST)
        self._rests[incarnation] = (self._clock.seconds() + rest, rest)
