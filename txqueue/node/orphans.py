"""Adopts jobs that were handed to the node and whose message got lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from txqueue.node.periodic import Periodic
from txqueue.store.functions import Chunk, StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["OrphanFinder"]

# Seconds between two looks: while processes have credit, while only peers may hand jobs over, and
# while no client does. Even then a transaction may commit late, long after its client vanished.
OFTEN, NOW_AND_THEN, SELDOM = 1.0, 2.0, 10.0
# Each assignment that a message names costs a statement.
MOST_NAMED = 2_000


class OrphanFinder(Periodic):
    """Looks now and then for what the node was handed and does not know.

    Args:
        clock: Times the looks.
        engine: The stored functions.
        identity: Returns (node_id, incarnation) of this run, or None while it has no lease.
        held: Returns the assignments that the workers hold.
        accept: Notes that an assignment arrived; says whether for the first time.
        perform: Performs chunks.
        has_clients: Whether jobs of clients may be under way.
        has_peers: Whether jobs of peers may be.

    Attributes:
        adopted: How many jobs were found so far.
    """

    name = "adoption"

    def __init__(
        self,
        clock: Clock,
        engine: StoredFunctions,
        *,
        identity: Callable[[], tuple[int, int] | None],
        held: Callable[[], Sequence[int]],
        accept: Callable[[int], bool],
        perform: Callable[[Sequence[Chunk]], None],
        has_clients: Callable[[], bool],
        has_peers: Callable[[], bool],
    ) -> None:
        super().__init__(clock)
        self._engine = engine
        self._identity = identity
        self._held = held
        self._accept = accept
        self._perform = perform
        self._has_clients = has_clients
        self._has_peers = has_peers
        self.adopted = 0
        self._named: list[int] = []
        self._clock = clock
        self._looked_at = float("-inf")

    def read(self, assignments: Sequence[int]) -> None:
        """Take assignments that a message named by their numbers alone."""
        if len(self._named) + len(assignments) > MOST_NAMED:
            # Looking for all that is not known finds them as well.
            self._named.clear()
            self._looked_at = float("-inf")
        else:
            self._named += assignments
        self.alarm.ring()

    async def step(self) -> float | None:
        """Take what was named, or look for all that is not known."""
        identity = self._identity()
        if identity is None:
            return OFTEN
        named, self._named = list(dict.fromkeys(self._named)), []
        for assignment in named:
            self._adopt(await self._engine.direct_jobs(identity[1], assignment))
        if not named or self._clock.seconds() - self._looked_at >= OFTEN:
            self._looked_at = self._clock.seconds()
            found = self._adopt(await self._engine.direct_jobs(identity[1], known=self._held()))
            # What is found is so much at a time.
            self._looked_at = float("-inf") if found else self._looked_at
            return 0.0 if found or self._named else self._every
        return 0.0 if self._named else self._every

    @property
    def _every(self) -> float:
        if self._has_clients():
            return OFTEN
        return NOW_AND_THEN if self._has_peers() else SELDOM

    def _adopt(self, chunks: Sequence[Chunk]) -> bool:
        """Perform what arrived for the first time; returns whether anything did."""
        if not self.running:
            return False
        new = [chunk for chunk in chunks if self._accept(chunk.assignment)]
        self.adopted += sum(chunk.jobs for chunk in new)
        self._perform(new)
        return bool(new)
