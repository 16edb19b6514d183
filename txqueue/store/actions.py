"""Calls the stored functions by which operators act: each leaves a row that names the operator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from twisted.internet.defer import DeferredLock

from txqueue.errors import Refused
from txqueue.policy.status import LIMITS
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.errors import answered

__all__ = ["Acting", "Cancelled"]

SCHEDULE_ACTS = ("pause", "resume", "remove", "run")
PATIENCE = 8
_BOUNDED = f"set local statement_timeout = {PATIENCE * 1000}; "


@frozen
class Cancelled:
    """What became of jobs that were to be cancelled.

    Attributes:
        ended: Those that have ended by it.
        requested: Those that a node holds: incarnation, assignment and number each.
        refused: Those that had ended before, or never were.
    """

    ended: list[int]
    requested: list[tuple[int, int, int]]
    refused: list[int]


class Acting:
    """Acts on behalf of operators, one act at a time.

    Args:
        pool: Where the calls run.
        schema: The name of the schema.
    """

    def __init__(self, pool: ConnectionPool, schema: str) -> None:
        self._pool = pool
        self._schema = schema
        self._turn = DeferredLock()

    async def _row(self, call: str, *arguments: object) -> Sequence[Any]:
        await self._turn.acquire()
        try:
            with answered(PATIENCE):
                sql = f"{_BOUNDED}select * from {self._schema}.{call}"
                rows = await self._pool.query(sql, arguments)
        finally:
            self._turn.release()
        return rows[0]

    async def pause(self, kind: str, key: str, who: str) -> bool:
        """Start nothing of a queue, a group or a tenant; tells whether that is new."""
        return bool((await self._row("pause(%s, %s, %s)", kind, key, who))[0])

    async def resume(self, kind: str, key: str, who: str) -> bool:
        """Go on with a queue, a group or a tenant; tells whether that is new."""
        return bool((await self._row("resume(%s, %s, %s)", kind, key, who))[0])

    async def set_limit(
        self, kind: str, key: str, limits: Mapping[str, object], cleared: Sequence[str], who: str
    ) -> dict[str, Any] | None:
        """Set limits and lift others; returns the control that is left, if one is."""
        *given, backlog = (limits.get(name) for name in LIMITS)
        marks = ", ".join(["%s"] * (len(given) + 3))
        call = f"set_limit({marks}, %s::text[], %s)"
        control = (await self._row(call, kind, key, *given, who, list(cleared), backlog))[0]
        left: dict[str, Any] | None = json.loads(control) if isinstance(control, str) else control
        return left

    async def cancel(self, ids: Sequence[int], who: str) -> Cancelled:
        """Cancel jobs."""
        ended, held, refused = await self._row("cancel(%s::bigint[], %s)", list(ids), who)
        return Cancelled(ended, [(a, b, c) for a, b, c in held], refused)

    async def retry(self, ids: Sequence[int], who: str) -> tuple[list[int], list[int]]:
        """Run jobs again; returns those that do, and those that do not."""
        retried, refused = await self._row("retry(%s::bigint[], %s)", list(ids), who)
        return retried, refused

    async def retry_failures(
        self, fingerprint: str, before: str | None, who: str
    ) -> tuple[int, datetime]:
        """Run some jobs again that failed in one way before a moment; see the function."""
        call = "retry_failures(%s, %s, %s::timestamptz)"
        retried, until = await self._row(call, fingerprint, who, before)
        return retried, until

    async def discard_failures(
        self, fingerprint: str, before: str | None, who: str
    ) -> tuple[int, datetime]:
        """Have some jobs that failed in one way count as cancelled; see the function."""
        call = "discard_failures(%s, %s, %s::timestamptz)"
        discarded, until = await self._row(call, fingerprint, who, before)
        return discarded, until

    async def postpone_failures(
        self, fingerprint: str, delay: float, until: str | None, who: str
    ) -> tuple[int, datetime]:
        """Have some jobs that failed in one way run again later; see the function."""
        call = "postpone_failures(%s, %s, %s, %s::timestamptz)"
        postponed, moment = await self._row(call, fingerprint, who, delay, until)
        return postponed, moment

    async def act_on_schedule(self, name: str, act: str, who: str) -> tuple[bool, int]:
        """Pause, resume, remove or run a schedule; tells whether that is new, and the job run.

        Raises:
            Refused: When there is no such act or schedule.
        """
        if act not in SCHEDULE_ACTS:
            raise Refused(
                f"{act!r} is nothing to do to a schedule", "pause, resume, remove or run it"
            )
        done = (await self._row(f"{act}_schedule(%s, %s)", name, who))[0]
        return (True, int(done)) if act == "run" else (act == "remove" or bool(done), 0)

    async def set_priority(
        self, ids: Sequence[int], priority: int, who: str
    ) -> tuple[list[int], list[int]]:
        """Give jobs another priority; returns those that have it, and those that cannot."""
        call = "set_priority(%s::bigint[], %s, %s)"
        changed, refused = await self._row(call, list(ids), priority, who)
        return changed, refused

    async def drain(self, name: str, who: str) -> bool:
        """Have a node take nothing more; tells whether that is new."""
        return bool((await self._row("drain_node(%s, %s)", name, who))[0])

    async def undrain(self, name: str, who: str) -> bool:
        """Have a draining node take jobs again; tells whether that is new."""
        return bool((await self._row("undrain_node(%s, %s)", name, who))[0])
