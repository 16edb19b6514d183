"""Calls of the stored functions that concern a node's run, and the upkeep of the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.refused_statements import RefusedStatements
from txqueue.store.node.function_calls import REGISTER_NODE
from txqueue.store.node.replies import HeartbeatReply
from txqueue.store.node.unreadable_jobs import Rows, past_damage
from txqueue.store.schema.files import checked_name
from txqueue.store.schema.version import IDENTITY, QueueIdentity

__all__ = ["RunFunctions"]


class RunFunctions:
    """The stored functions of one schema that concern no single job.

    Args:
        pool: The connections on which the calls run.
        schema: The name of the schema.
        refused: Notes which of the calls the database refuses.
    """

    def __init__(
        self, pool: ConnectionPool, schema: str, refused: RefusedStatements | None
    ) -> None:
        self._pool = pool
        self._refused = RefusedStatements() if refused is None else refused
        self.schema = checked_name(schema)

    async def _query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        with self._refused.noted(sql):
            return await past_damage(
                lambda: self._pool.query(sql, parameters), lambda: self._set_aside(0)
            )

    async def _call(self, function: str, *arguments: object) -> Any:
        marks = ", ".join(["%s"] * len(arguments))
        rows = await self._query(f"select {self.schema}.{function}({marks})", arguments)
        return rows[0][0]

    async def _set_aside(self, incarnation: int, queues: Sequence[str] = ()) -> Sequence[int]:
        """Fail the jobs that cannot be read or moved; return their numbers."""
        sql = f"select {self.schema}.set_aside(%s, %s::text[])"
        with self._refused.noted(sql):
            rows = await self._pool.query(sql, (incarnation, list(queues)))
        ids: Sequence[int] = rows[0][0]
        return ids

    async def identity(self) -> QueueIdentity:
        """Return which queue this is, by which a client detects a node of another one."""
        [row] = await self._pool.query_dicts(IDENTITY.format(schema=self.schema))
        return QueueIdentity.of_row(row, self.schema)

    async def register_node(
        self,
        node: Mapping[str, Any],
        work_types: Sequence[Mapping[str, Any]],
        *,
        former_died: bool = True,
    ) -> tuple[int, int]:
        """Register a run of a node and publish its work types; return (node_id, incarnation).

        Args:
            node: The columns of the node's row.
            work_types: The node's work types, with their policies.
            former_died: Whether the workers of the name's former run have died.
        """
        # A registration that was given up may still commit; it is refused if another run has
        # registered since its incarnation was reserved.
        ((reserved, former),) = await self._query(
            f"select incarnation, former from {self.schema}.reserve_run(%s)", (node["name"],)
        )
        rows = await self._query(
            REGISTER_NODE.format(schema=self.schema),
            (
                *(
                    node[key]
                    for key in ("name", "hostname", "pid", "port", "lease", "capacity", "queues")
                ),
                json.dumps(work_types),
                node["version"],
                node["address"],
                reserved,
                former,
                former_died,
            ),
        )
        return rows[0][0], rows[0][1]

    async def heartbeat(
        self, incarnation: int, load: float, report: Mapping[str, Any]
    ) -> HeartbeatReply:
        """Renew the lease and rescue dead nodes' jobs; return what concerns the node."""
        rows = await self._query(
            "select owned, its_state, peers, cancels, neighbours, next_end, place, places, rescued,"
            " nodes, beats, server, is_idle, work_in, schedule_in, restarts"
            f" from {self.schema}.heartbeat(%s, %s, %s)",
            (incarnation, load, json.dumps(report)),
        )
        return HeartbeatReply.of_row(rows[0])

    async def renew_for_peer(self, incarnation: int, heard: Sequence[int]) -> list[int]:
        """Renew the leases of peers that cannot reach the database; return the peers to notify.

        Args:
            incarnation: The node's run.
            heard: The incarnations of the peers, which have just answered this node.
        """
        return list(await self._call("renew_for_peer", incarnation, list(heard)))

    async def declare_dead(self, incarnation: int, ended: Sequence[int]) -> int:
        """Rescue the jobs of nodes of this host whose masters have ended; return how many jobs."""
        return int(await self._call("declare_dead", incarnation, list(ended)))

    async def replaced_by(self, name: str) -> int | None:
        """Return the incarnation that the present run of a node's name has replaced, if any."""
        rows = await self._query(
            f"select former from {self.schema}.node_info where name = %s", (name,)
        )
        return rows[0][0] if rows else None

    async def leave(self, incarnation: int, state: str) -> int:
        """Mark the node as draining or stopped, and return a stopped node's jobs to the queue.

        Returns:
            How many jobs returned to the queue.
        """
        return int(await self._call("leave", incarnation, state))

    async def advance_sequences(self) -> list[str]:
        """Set the sequences that are behind their tables; return what was behind."""
        return list(await self._call("advance_sequences", False))

    async def rotate(self, held: Sequence[str]) -> tuple[list[str], list[str]]:
        """Truncate drained lanes, and update which queues have reached their backlog limits.

        Args:
            held: The transactions that blocked the previous call.

        Returns:
            What was done, and the transactions that blocked this call.
        """
        rows = await self._query(
            f"select did, holders, exists (select from {self.schema}.control"
            f" where backlog is not null) from {self.schema}.rotate(%s::text[])",
            (list(held),),
        )
        did, holders, has_backlogs = rows[0]
        if has_backlogs:
            # A separate statement, as the other one holds locks on lanes.
            await self._call("refresh_backlog_flags")
        return did, holders

    async def ensure_history(self) -> list[str]:
        """Create history's next partitions and drop old ones; return what was done."""
        return list(await self._call("ensure_history"))

    async def measure_minute(self, bounds: Sequence[float]) -> list[tuple[Any, ...]]:
        """Note what jobs have done in the last minute, unless another node just did.

        Returns:
            How long the jobs waited that were done in that minute, if this call noted it: queue,
            work type, how many waited up to each bound and longer, and the sum in seconds.
        """
        sql = f"select queue, work_type, counts, total from {self.schema}.measure_minute(%s)"
        return list(await self._query(sql, (list(bounds),)))

    async def archive_due(self) -> bool:
        """Tell whether an archive is configured and days of history are due to be archived."""
        rows = await self._query(
            f"select archive is not null and exists (select from {self.schema}.history_due())"
            f" from {self.schema}.setting"
        )
        return bool(rows[0][0])
