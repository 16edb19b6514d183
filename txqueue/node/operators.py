"""The node's admin endpoint: serves operators and applications, for the whole cluster, even without
the database.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import asdict, define
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from txqueue.errors import AdminRefused, DatabaseUnavailable, JobNotFound, TxqueueError
from txqueue.model.assignment import CancelledJob
from txqueue.model.operator_acts import ACTS, Value, ValueKind, signed
from txqueue.node.state.lease import Lease, Lifecycle, ListeningPort
from txqueue.policy.findings.explanation import explain_archived
from txqueue.policy.pagination import as_text, first_page, join_numbers, numbers
from txqueue.store.inquiries.inquiry import Inquiry
from txqueue.store.inquiries.jobs import about_archived_days
from txqueue.store.inquiries.operations import Operations, Queries
from txqueue.store.operator_arguments import prepared
from txqueue.store.reads import queue_state
from txqueue.store.reads.history import about_failures
from txqueue.store.reads.job_details import (
    about_actions,
    about_archived_job,
    about_job,
    about_obstacles,
)
from txqueue.store.reads.job_search import about_found
from txqueue.wire import admin_commands as wire
from txqueue.wire.admin_commands import GetHealth, whole_numbers
from txqueue.wire.commands import Inspect
from txqueue.wire.endpoints import Endpoint, INetworkReactor
from txqueue.wire.guarded_pipes import CertifiedPipe, PipeServer, UncertifiedPipe
from txqueue.wire.pipe import Pipe, Responders
from txqueue.wire.tls import caller_of

if TYPE_CHECKING:
    from txqueue.node.arrival.assigned import Credits
    from txqueue.node.description import Description
    from txqueue.node.workers.workload import Workers

# More jobs than this never fit into a page.
MOST_LISTED = 200
SCHEDULE_ACTS = ("pause", "resume", "remove", "run")
Answer = Mapping[str, Any]
Command = type[Any]
Handler = Callable[..., Awaitable[Answer]]
FindArchived = Callable[[Sequence[Mapping[str, Any]], int], Awaitable["dict[str, Any] | None"]]
Listing = Callable[[str, str | None, int], Inquiry[Any]]

# Lists in pages: their name in the answer, their query, and the columns that identify a row.
_LISTS: dict[Command, tuple[str, Listing, tuple[str, ...]]] = {
    wire.ListQueues: ("queues", queue_state.about_queues, ("queue",)),
    wire.ListControls: ("controls", queue_state.about_controls, ("kind", "key")),
    wire.ListFailures: ("failures", about_failures, ("fingerprint", "work_type")),
}


@define(eq=False, repr=False, slots=False)
class DatabaseHandlers:
    """Handles the commands of an operator that need only the database, in whatever process.

    Args:
        pool: Runs the statements.
        schema: The name of the schema.
        find_archived: Reads archived jobs; see `ArchiveProcess.job`.
    """

    _pool: Queries
    _schema: str
    _find_archived: FindArchived

    def __attrs_post_init__(self) -> None:
        self._operations = Operations(self._pool, self._schema)

    def functions(self) -> dict[Command, Handler]:
        """Return the handler of each command; each takes the operator's name first."""
        return {
            wire.GetStatus: self._get_status,
            wire.GetQueue: self._get_queue,
            wire.ListJobs: self._list_jobs,
            wire.GetJob: self._get_job,
            wire.Explain: self._explain,
            wire.ListActions: self._list_actions,
            **{command: partial(self._list, *how) for command, how in _LISTS.items()},
            wire.ActOnSchedule: self._act_on_schedule,
            **{command: partial(self._act, name) for name, command in wire.ACT_COMMANDS.items()},
        }

    # Queries. Every operator gets the same answer.

    async def _list(
        self,
        name: str,
        inquire: Listing,
        key: Sequence[str],
        _who: str,
        after: str | None = None,
    ) -> Answer:
        inquiry = inquire(self._schema, after or None, MOST_LISTED + 1)
        return _first(name, await self._operations.find(inquiry), key, MOST_LISTED)

    async def _get_status(self, _who: str) -> Answer:
        return {"status": as_text(await self._operations.find(queue_state.about_all(self._schema)))}

    async def _get_queue(self, _who: str) -> Answer:
        return asdict(await self._operations.find(queue_state.about_identity(self._schema)))

    async def _list_jobs(
        self, _who: str, after: str | None = None, limit: int | None = None, **filters: Any
    ) -> Answer:
        size = min(MOST_LISTED if limit is None else max(1, limit), MOST_LISTED)
        bounds = {**filters, "after": _number(after)}
        inquiry = about_found(self._schema, bounds, size, is_bounded=False)
        listing = await self._operations.find(inquiry)
        page = first_page(listing.jobs)
        following, searched = listing.next, listing.searched
        if page.last is not None and not page.is_whole:
            # A list ordered by run time has no next page, as its numbers are unordered.
            is_by_time = filters.get("running_for") is not None
            following, searched = None if is_by_time else page.last["job_id"], None
        return {
            "jobs": page.text,
            "next": "" if following is None else str(following),
            "at": listing.at.isoformat(),
            "searched": searched or 0,
            "obeyed": " ".join(sorted(wire.ListJobs.newer & filters.keys())),
        }

    async def _get_job(self, _who: str, job_id: int) -> Answer:
        try:
            job = await self._operations.find(about_job(self._schema, job_id))
        except JobNotFound as error:
            row = await self._archived(job_id, error)
            job = await self._operations.find(about_archived_job(self._schema, row))
        return {"job": as_text(job)}

    async def _explain(self, _who: str, job_id: int) -> Answer:
        try:
            explanation = await self._operations.find(about_obstacles(self._schema, job_id))
        except JobNotFound as error:
            explanation = explain_archived(await self._archived(job_id, error))
        return {"explanation": as_text(asdict(explanation))}

    async def _archived(self, job_id: int, error: JobNotFound) -> Mapping[str, Any]:
        """Return the columns of an archived job; raise the error if no archive has it.

        Raises:
            ArchiveUnavailable: When the archive cannot be read.
        """
        days = await self._operations.find(about_archived_days(self._schema, job_id))
        row = await self._find_archived(days, job_id)
        if row is None:
            raise error
        return row

    async def _list_actions(
        self, _who: str, subject: str | None = None, after: str | None = None
    ) -> Answer:
        inquiry = about_actions(self._schema, _number(after), MOST_LISTED + 1, subject)
        rows = await self._operations.find(inquiry)
        return _first("actions", rows, ("action_id",), MOST_LISTED)

    # Acts. Each is recorded in `action` with its operator.

    async def _act(
        self, name: str, who: str, /, why: str | None = None, **arguments: Any
    ) -> Answer:
        row, number = await self._row(name, signed(who, why), **arguments)
        answer = {
            value.name: self._written(value.kind, column, name, who)
            for value, column in zip(ACTS[name].gives, row, strict=True)
        }
        return {**answer, "act": number}

    async def _row(
        self, name: str, who: str, /, **arguments: Any
    ) -> tuple[Sequence[Any], int | None]:
        values = {value.name: _read(value, arguments.get(value.name)) for value in ACTS[name].takes}
        checked = await prepared(self._operations, self._schema, name, values)
        return await self._operations.numbered_act(name, {**checked, "who": who})

    def _written(self, kind: ValueKind, value: Any, name: str, who: str) -> Any:
        """Return a value of a row as the answer has it."""
        match kind:
            case ValueKind.IDS:
                return join_numbers(value)
            case ValueKind.RUNS:
                self._end(value, who, is_restart=name == "restart")
                return join_numbers(job_id for _, _, job_id in value)
            case ValueKind.MOMENT:
                return value.isoformat()
            case ValueKind.JSON:
                return value if isinstance(value, str) else json.dumps(value)
        return value

    def _end(self, held: Sequence[tuple[int, int, int]], who: str, *, is_restart: bool) -> None:
        """End some runs at once; otherwise their nodes do at their next heartbeats."""

    async def _act_on_schedule(
        self, who: str, name: str, act: str, why: str | None = None
    ) -> Answer:
        if act not in SCHEDULE_ACTS:
            raise AdminRefused(
                f"{act!r} is not an act on a schedule", "pause, resume, remove or run it"
            )
        [outcome], _ = await self._row(f"{act}_schedule", signed(who, why), name=name)
        is_run = act == "run"
        is_change = is_run or act == "remove" or bool(outcome)
        return {"changed": is_change, "job_id": int(outcome) if is_run else 0}


@define(eq=False, repr=False, slots=False)
class AdminHandlers(DatabaseHandlers):
    """Handles each command of an operator at a node.

    Args:
        description: The node's description of itself.
        lease: Has the incarnation of this run.
        workers: End a cancelled job that they hold at once, before the next heartbeat names it.
    """

    log = Logger()

    _description: Description
    _lease: Lease
    _workers: Workers

    def responders(self, pipe: Pipe) -> Responders:
        """Return the handler of each command, for the operator of a connection."""
        functions: dict[Command, Handler] = {wire.ListNodes: self._list_nodes, **self.functions()}
        return {
            command: partial(self._answer, pipe, function)
            for command, function in functions.items()
        }

    def _answer(self, pipe: Pipe, function: Handler, **arguments: Any) -> Deferred[Answer]:
        return Deferred.fromCoroutine(self._answer_safely(pipe, function, arguments))

    async def _answer_safely(
        self, pipe: Pipe, function: Handler, arguments: Mapping[str, Any]
    ) -> Answer:
        """Convert every error: an error that the command does not list would end the connection."""
        try:
            for name, value in arguments.items():
                if type(value) is int:
                    whole_numbers(name, [value])
            return await function(caller_of(pipe.transport), **arguments)
        except AdminRefused:
            raise
        except TxqueueError as error:
            raise AdminRefused(" ".join(str(error).split())) from None
        except Exception as error:
            self.log.failure("an operator's command failed")
            raise AdminRefused(
                f"the node has a fault: {type(error).__name__}",
                "see the node's log, and please report it",
            ) from None

    async def _list_nodes(self, _who: str, after: str | None = None) -> Answer:
        description = self._description.describe()
        try:
            inquiry = queue_state.about_nodes(self._schema, after or None, MOST_LISTED + 1)
            node_rows = await self._operations.find(inquiry)
        except DatabaseUnavailable:
            # The node can still describe itself.
            return {"nodes": as_text([description]), "next": ""}
        rows = [
            {**row, **description} if row["incarnation"] == description["incarnation"] else row
            for row in node_rows
        ]
        return _first("nodes", rows, ("name",), MOST_LISTED)

    def _end(self, held: Sequence[tuple[int, int, int]], who: str, *, is_restart: bool) -> None:
        """End those of some runs that this node has."""
        for incarnation, assignment, job_id in held:
            if incarnation == self._lease.incarnation:
                self._workers.cancel(CancelledJob(assignment, job_id, who, is_restart))


def _read(value: Value, given: Any) -> Any:
    """Return an argument as the stored function takes it."""
    if value.kind is ValueKind.NAMES:
        return [name.strip() for name in (given or "").split(",") if name.strip()]
    if value.kind is ValueKind.MOMENT and given is not None:
        # The database takes infinity as well, from which no job returns.
        try:
            return value.read(given)
        except ValueError as error:
            raise AdminRefused(f"{value.name}: {error}", "give another moment") from None
    return numbers(given) if value.kind is ValueKind.IDS else given


def _number(text: str | None) -> int | None:
    if not text:
        return None
    parsed = numbers(text)
    if len(parsed) != 1:
        raise AdminRefused(
            f"{text[:100]!r} is not the number of a previous page", "pass one number"
        )
    return parsed[0]


def _first(name: str, rows: Sequence[Answer], key: Sequence[str], size: int) -> Answer:
    """Return the first rows, as many as are wanted and fit, and the key of the next page."""
    page = first_page(rows[:size])
    is_end = page.last is None or (page.is_whole and len(rows) <= size)
    return {name: page.text, "next": "" if is_end or page.last is None else _key(page.last, key)}


def _key(row: Answer, columns: Sequence[str]) -> str:
    return " ".join(str(row[column]) for column in columns)


# No idle timeout: applications that have joined the node stay connected.
MOST_CONNECTED = 256


@define(eq=False, repr=False, slots=False)
class AdminEndpoint(Service):
    """Listens at the node's admin endpoint.

    Args:
        reactor: Opens the port.
        endpoint: The endpoint's address.
        description: The node's description of itself, and its health.
        lifecycle: Stops the node if it cannot listen.
        operators: Serves operators.
        guests: Lets applications join, only at a unix socket, which no other account can open.
    """

    name = "admin"

    _reactor: INetworkReactor
    _endpoint: Endpoint
    _description: Description
    _lifecycle: Lifecycle
    _operators: AdminHandlers
    _guests: Credits

    def __attrs_post_init__(self) -> None:
        self._port = ListeningPort(self._reactor, self._endpoint, self._lifecycle)
        self._server = self._made_server()

    def startService(self) -> None:
        """Start listening."""
        super().startService()
        self._port.open(self._server)

    def stopService(self) -> Deferred[None]:
        """Stop listening, and close all connections."""
        super().stopService()
        self._server.hang_up()
        return self._port.close()

    def _made_server(self) -> PipeServer:
        answers: Responders = {Inspect: self._inspect, GetHealth: self._get_health}
        if self._endpoint.path is not None:
            # A process that can open the socket runs under this account, and could do anything to
            # this process.
            return PipeServer(answers, MOST_CONNECTED, self._welcome)
        kind = UncertifiedPipe if self._endpoint.credentials is None else CertifiedPipe
        make = partial(kind, self._reactor)
        return PipeServer(answers, MOST_CONNECTED, self._greet, make)

    def _greet(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        return self._operators.responders(pipe), _nothing

    def _welcome(self, pipe: Pipe) -> tuple[Responders, Callable[[], None]]:
        """Serve an operator or an application of this account."""
        commands, left = self._guests.greet(pipe)
        return {**commands, **self._operators.responders(pipe)}, left

    def _inspect(self) -> dict[str, Any]:
        return {"node": json.dumps(self._description.describe())}

    def _get_health(self) -> dict[str, Any]:
        return {"health": json.dumps(self._description.health().as_dict())}


def _nothing() -> None:
    """Do nothing."""
