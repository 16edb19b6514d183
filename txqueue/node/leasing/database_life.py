"""Detects that the database has lost writes: restored from a dump, or failed over to a standby."""

from __future__ import annotations

from txqueue.node.state.collaborators import Holdings
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.replies import HeartbeatReply

__all__ = ["DatabaseLife"]


class DatabaseLife:
    """Compares each heartbeat's answer with the one before.

    A database that has counted fewer heartbeats than this node has lost some. A standby that was
    promoted may have lost less than a heartbeat: then it lacks assignments that the node holds. A
    standby that has lost nothing is no other life, and the node's jobs go on.

    Args:
        functions: The stored functions.
        holdings: The jobs that the node holds.
    """

    def __init__(self, functions: StoredFunctions, holdings: Holdings) -> None:
        self._functions = functions
        self._holdings = holdings
        self._beats = 0
        self._server: str | None = None

    def begin(self) -> None:
        """Begin a new run, of which the database has counted no heartbeat."""
        self._beats = 0
        self._server = None

    async def has_lost(self, incarnation: int, reply: HeartbeatReply) -> bool:
        """Return whether the database has lost writes of this run since the last answer."""
        if reply.beats <= self._beats:
            return True
        is_elsewhere = self._server not in (None, reply.server)
        if is_elsewhere and await self._lacks_jobs(incarnation):
            return True
        self._beats, self._server = reply.beats, reply.server
        return False

    async def _lacks_jobs(self, incarnation: int) -> bool:
        """Return whether the database lacks an assignment of which the node still holds jobs."""
        held = self._holdings.assignments
        found = await self._functions.jobs_of(incarnation, held)
        lacking = {*held} - {job.assignment for job in found}
        return not lacking.isdisjoint(self._holdings.assignments)
