"""Answers operators and does what they ask, for the whole cluster: the database knows it all."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import asdict
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from txqueue.errors import AdminRefused, DatabaseUnavailable, TxqueueError
from txqueue.policy.pagination import Page, as_text, first_page, joined, numbers
from txqueue.policy.status import LIMITS
from txqueue.store import queries
from txqueue.store.actions import Acting
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.history import about_failures
from txqueue.store.nonblocking_reader import Asking
from txqueue.wire import admin_commands as wire
from txqueue.wire.identity import caller_of
from txqueue.wire.pipe import Pipe, Responders

__all__ = ["AdminHandlers"]

# More jobs than this do not fit into a page anyway.
MOST_LISTED = 200
Answer = Mapping[str, Any]


class AdminHandlers:
    """What operators may ask and do.

    Args:
        pool: Where to ask and to act.
        schema: The name of the schema.
        describe: Returns what the node says of itself without asking the database.
        cancelled: Called with a job to cancel: incarnation, assignment, number, the operator.
    """

    log = Logger()

    def __init__(
        self,
        pool: ConnectionPool,
        schema: str,
        *,
        describe: Callable[[], Mapping[str, Any]],
        cancelled: Callable[[int, int, int, str], None],
    ) -> None:
        self._asking = Asking(pool)
        self._acting = Acting(pool, schema)
        self._schema = schema
        self._describe = describe
        self._cancelled = cancelled

    def responders(self, pipe: Pipe) -> Responders:
        """Return the handler of each command for the operator at the other end of a connection."""
        functions: dict[type[Any], Callable[..., Awaitable[Answer]]] = {
            wire.ListNodes: self._list_nodes,
            wire.ListQueues: self._list_queues,
            wire.GetStatus: self._get_status,
            wire.ListJobs: self._list_jobs,
            wire.GetJob: self._get_job,
            wire.Explain: self._explain,
            wire.ListControls: self._list_controls,
            wire.ListActions: self._list_actions,
            wire.ListFailures: self._list_failures,
            wire.Pause: self._pause,
            wire.Resume: self._resume,
            wire.SetLimit: self._set_limit,
            wire.CancelJobs: self._cancel,
            wire.RetryJobs: self._retry,
            wire.RetryFailures: self._retry_failures,
            wire.DiscardFailures: self._discard_failures,
            wire.PostponeFailures: self._postpone_failures,
            wire.ActOnSchedule: self._act_on_schedule,
            wire.SetPriority: self._set_priority,
            wire.DrainNode: self._drain,
            wire.UndrainNode: self._undrain,
        }
        return {
            command: partial(self._answer, pipe, function)
            for command, function in functions.items()
        }

    def _answer(
        self, pipe: Pipe, function: Callable[..., Awaitable[Answer]], **arguments: Any
    ) -> Deferred[Answer]:
        return Deferred.fromCoroutine(self._answered(pipe, function, arguments))

    async def _answered(
        self, pipe: Pipe, function: Callable[..., Awaitable[Answer]], arguments: Mapping[str, Any]
    ) -> Answer:
        """Answer, whatever happens: an error that the command does not name ends the connection."""
        try:
            return await function(caller_of(pipe.transport), **arguments)
        except AdminRefused:
            raise
        except TxqueueError as error:
            raise AdminRefused(" ".join(str(error).split())) from None
        except Exception as error:
            self.log.failure("an operator's command failed")
            raise AdminRefused(
                f"the node has a fault: {type(error).__name__}", "see its log, please report it"
            ) from None

    # Questions. Every operator gets the same answer.

    async def _list_nodes(self, who: str, after: str | None = None) -> Answer:  # noqa: ARG002
        own = self._describe()
        try:
            found = await self._asking.find(queries.about_nodes(self._schema))
        except DatabaseUnavailable:
            # It can still say how it is itself.
            return {"nodes": as_text([own]), "next": ""}
        rows = [
            {**row, **own} if row["incarnation"] == own["incarnation"] else row for row in found
        ]
        return _paged("nodes", _after(rows, after, "name"), "name")

    async def _list_queues(self, who: str, after: str | None = None) -> Answer:  # noqa: ARG002
        rows = await self._asking.find(queries.about_queues(self._schema))
        return _paged("queues", _after(rows, after, "queue"), "queue")

    async def _get_status(self, who: str) -> Answer:  # noqa: ARG002
        return {"status": as_text(await self._asking.find(queries.about_all(self._schema)))}

    async def _list_jobs(
        self,
        who: str,  # noqa: ARG002
        after: str | None = None,
        limit: int | None = None,
        running_for: float | None = None,
        **filters: str | None,
    ) -> Answer:
        wanted = min(MOST_LISTED if limit is None else max(1, limit), MOST_LISTED)
        chosen = {**filters, "after": _number(after), "running_for": running_for}
        # One more than is wanted tells whether there is more.
        asked = queries.about_jobs(self._schema, chosen, wanted + 1)
        rows, now = await self._asking.find(asked)
        page = first_page(rows[:wanted])
        # The longest first have numbers in no order, after which one could go on.
        is_last = running_for is not None or (page.is_whole and len(rows) <= wanted)
        return {**_answer("jobs", page, "job_id", is_last=is_last), "at": now.isoformat()}

    async def _get_job(self, who: str, job_id: int) -> Answer:  # noqa: ARG002
        return {"job": as_text(await self._asking.find(queries.about_job(self._schema, job_id)))}

    async def _explain(self, who: str, job_id: int) -> Answer:  # noqa: ARG002
        found = await self._asking.find(queries.about_obstacles(self._schema, job_id))
        return {"explanation": as_text(asdict(found))}

    async def _list_controls(self, who: str, after: str | None = None) -> Answer:  # noqa: ARG002
        rows = await self._asking.find(queries.about_controls(self._schema))
        named = [{**row, "name": f"{row['kind']} {row['key']}"} for row in rows]
        return _paged("controls", _after(named, after, "name"), "name")

    async def _list_actions(
        self,
        who: str,  # noqa: ARG002
        subject: str | None = None,
        after: str | None = None,
    ) -> Answer:
        asked = queries.about_actions(self._schema, _number(after), MOST_LISTED + 1, subject)
        rows = await self._asking.find(asked)
        page = first_page(rows[:MOST_LISTED])
        is_last = page.is_whole and len(rows) <= MOST_LISTED
        return _answer("actions", page, "action_id", is_last=is_last)

    async def _list_failures(self, who: str, after: str | None = None) -> Answer:  # noqa: ARG002
        rows = await self._asking.find(about_failures(self._schema))
        named = [{**row, "name": f"{row['fingerprint']} {row['work_type']}"} for row in rows]
        return _paged("failures", _after(named, after, "name"), "name")

    # Actions. Each leaves a row in `action` that names the operator.

    async def _pause(self, who: str, kind: str, key: str) -> Answer:
        return {"changed": await self._acting.pause(kind, key, who)}

    async def _resume(self, who: str, kind: str, key: str) -> Answer:
        return {"changed": await self._acting.resume(kind, key, who)}

    async def _set_limit(
        self, who: str, kind: str, key: str, cleared: str | None = None, **limits: float | None
    ) -> Answer:
        names = [name.strip() for name in (cleared or "").split(",") if name.strip()]
        given = {name: limits.get(name) for name in LIMITS}
        control = await self._acting.set_limit(kind, key, given, names, who)
        return {"control": json.dumps(control)}

    async def _cancel(self, who: str, ids: str) -> Answer:
        done = await self._acting.cancel(numbers(ids), who)
        for held in done.requested:
            self._cancelled(*held, who)
        requested = [job_id for _, _, job_id in done.requested]
        return {
            "cancelled": joined(done.ended),
            "requested": joined(requested),
            "refused": joined(done.refused),
        }

    async def _retry(self, who: str, ids: str) -> Answer:
        retried, refused = await self._acting.retry(numbers(ids), who)
        return {"retried": joined(retried), "refused": joined(refused)}

    async def _retry_failures(
        self, who: str, fingerprint: str, before: str | None = None
    ) -> Answer:
        retried, moment = await self._acting.retry_failures(fingerprint, before, who)
        return {"retried": retried, "before": moment.isoformat()}

    async def _discard_failures(
        self, who: str, fingerprint: str, before: str | None = None
    ) -> Answer:
        discarded, moment = await self._acting.discard_failures(fingerprint, before, who)
        return {"discarded": discarded, "before": moment.isoformat()}

    async def _postpone_failures(
        self, who: str, fingerprint: str, delay: float, until: str | None = None
    ) -> Answer:
        postponed, moment = await self._acting.postpone_failures(fingerprint, delay, until, who)
        return {"postponed": postponed, "until": moment.isoformat()}

    async def _act_on_schedule(self, who: str, name: str, act: str) -> Answer:
        changed, job_id = await self._acting.act_on_schedule(name, act, who)
        return {"changed": changed, "job_id": job_id}

    async def _set_priority(self, who: str, ids: str, priority: int) -> Answer:
        changed, refused = await self._acting.set_priority(numbers(ids), priority, who)
        return {"changed": joined(changed), "refused": joined(refused)}

    async def _drain(self, who: str, name: str) -> Answer:
        return {"changed": await self._acting.drain(name, who)}

    async def _undrain(self, who: str, name: str) -> Answer:
        return {"changed": await self._acting.undrain(name, who)}


def _number(text: str | None) -> int | None:
    if not text:
        return None
    found = numbers(text)
    if len(found) != 1:
        raise AdminRefused(f"{text[:100]!r} is not a number to go on after", "pass one number")
    return found[0]


def _after(rows: Sequence[Answer], after: str | None, key: str) -> Sequence[Answer]:
    """Leave out what earlier pages had; the rows are sorted by the key."""
    names = sorted(rows, key=lambda row: str(row[key]))
    return [row for row in names if row[key] > after] if after else names


def _paged(name: str, rows: Sequence[Answer], key: str) -> Answer:
    page = first_page(rows)
    return _answer(name, page, key, is_last=page.is_whole)


def _answer(name: str, page: Page, key: str, *, is_last: bool) -> Answer:
    is_end = is_last or page.last is None
    return {name: page.text, "next": "" if is_end or page.last is None else str(page.last[key])}
