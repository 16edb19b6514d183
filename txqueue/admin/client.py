"""A client of a node's admin endpoint; any node answers for the whole cluster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self, cast

from attrs import frozen
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError

from txqueue.errors import AdminRefused, NodeUnavailable
from txqueue.model.operator_acts import ACTS, Cancelled
from txqueue.model.results import signal_text
from txqueue.model.schedule import Schedule, schedule_object
from txqueue.policy.findings.explanation import Explanation
from txqueue.policy.pagination import MOST_NUMBERS, join_numbers, numbers, read_document
from txqueue.store.schema.files import QueueIdentity
from txqueue.wire import admin_commands as wire
from txqueue.wire.admin_commands import checked_arguments, texts, whole_numbers
from txqueue.wire.endpoints import Endpoint, INetworkReactor, parsed_endpoint
from txqueue.wire.pipe import Pipe, PipeFactory, UnhandledCommand
from txqueue.wire.tls import NODE, OPERATOR, Credentials, peer_name


@frozen
class JobsPage:
    """One page of a list of jobs.

    Attributes:
        jobs: The jobs of the page.
        next: The `after` with which to request the next page; None on the last page.
        at: The time by the database's clock.
        searched: How many jobs were looked at, if the page ends because of that; None otherwise.
    """

    jobs: list[dict[str, Any]]
    next: str | None
    at: datetime
    searched: int | None = None


@frozen
class Restarted:
    """The result of a request to restart jobs.

    Attributes:
        restarted: The numbers of the jobs that are in the queue again.
        requested: The numbers of jobs of groups, which follow once their node has ended their runs.
        refused: The numbers of jobs that did not run, or do not exist.
    """

    restarted: list[int]
    requested: list[int]
    refused: list[int]


CONNECT_PATIENCE, PATIENCE = 10, 30


class Link:
    """Carries out the commands for operators: `ask` sends one and returns its answer.

    Attributes:
        why: Why the acts are carried out, which is recorded with them.
    """

    why: str | None = None

    async def ask(self, command: type[Any], **arguments: Any) -> dict[str, Any]:
        """Carry out a command, and return its answer."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection."""

    async def document(self, command: type[Any], name: str, **arguments: Any) -> dict[str, Any]:
        """Return the document in a command's answer."""
        document: dict[str, Any] = read_document((await self.ask(command, **arguments))[name])
        return document

    async def listed(
        self, command: type[Any], name: str, **filters: str | None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the rows of a list from all its pages."""
        cursor = None
        while True:
            answer = await self.ask(command, **given(after=cursor, **filters))
            for row in read_document(answer[name]):
                yield row
            if not (cursor := answer["next"]):
                return

    async def whole(self, command: type[Any], name: str) -> list[dict[str, Any]]:
        """Return a list from all its pages."""
        return [row async for row in self.listed(command, name)]

    async def act(self, act: str, /, **arguments: Any) -> dict[str, Any]:
        """Carry out an act, one of `ACTS`, and return its answer."""
        arguments = {**given(why=self.why), **arguments}
        if (command := wire.ACT_COMMANDS.get(act)) is None:
            on_schedule = act.removesuffix("_schedule")
            return await self.ask(wire.ActOnSchedule, act=on_schedule, **arguments)
        return await self.ask(command, **arguments)

    async def changed(self, act: str, /, **arguments: Any) -> bool:
        """Carry out an act; return whether it has changed anything."""
        return bool((await self.act(act, **arguments))["changed"])

    async def each(self, name: str, ids: Iterable[int], **arguments: Any) -> dict[str, list[int]]:
        """Carry out an act on all the jobs, some at a time; merge the answers, with `acts`."""
        names = (*(value.name for value in ACTS[name].gives), "acts")
        sums: dict[str, list[int]] = {result: [] for result in names}
        job_ids = whole_numbers("ids", ids)
        for start in range(0, len(job_ids), MOST_NUMBERS):
            part = join_numbers(job_ids[start : start + MOST_NUMBERS])
            answer = await self.act(name, ids=part, **arguments)
            sums["acts"] += filter(None, [answer.pop("act", None)])
            for result, text in answer.items():
                sums[result] += numbers(text)
        return sums


class AdminLink(Link):
    """A connection to a node's admin endpoint.

    Args:
        reactor: The reactor that connects.
        endpoint: Where the node listens.
    """

    def __init__(self, reactor: INetworkReactor, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.pipe = Pipe({}, lost=lambda: None)
        self._reactor = reactor

    async def open(self) -> None:
        """Connect.

        Raises:
            NodeUnavailable: When no node answers at the endpoint.
        """
        try:
            await self.endpoint.connect(self._reactor, PipeFactory(self.pipe), CONNECT_PATIENCE)
        except (ConnectError, ConnectionClosed, DNSLookupError) as error:
            raise self._unavailable(error) from None

    def close(self) -> None:
        """Close the connection."""
        self.pipe.abort()

    async def ask(self, command: type[Any], **arguments: Any) -> dict[str, Any]:
        """Send a command, and return its answer.

        Raises:
            AdminRefused: When an argument is not valid, or the node refuses the command or is too
                old for it.
            NodeUnavailable: When no node answers, or not with a valid answer.
        """
        reply = self.pipe.say(command, **checked_arguments(command, arguments))
        try:
            answer: dict[str, Any] = await reply.addTimeout(PATIENCE, self._reactor)
        except (AdminRefused, CancelledError):
            raise
        except UnhandledCommand:
            raise AdminRefused(
                f"the node at {self.endpoint} is too old for {command.__name__}",
                "upgrade the node",
            ) from None
        except (ConnectionClosed, TimeoutError) as error:
            # A pipe makes a lost connection of TLS errors about a rejected certificate.
            raise self._unavailable(error) from None
        except Exception as error:
            raise NodeUnavailable(
                f"the answer to {command.__name__} from {self.endpoint} is not valid:"
                f" {type(error).__name__}",
                "check which process, and which version of it, listens there",
            ) from error
        self._ensure_node()
        return answer

    def _ensure_node(self) -> None:
        """Check, over TLS, that the other side has a node's certificate, not an operator's.

        Raises:
            NodeUnavailable: When it has another certificate.
        """
        if self.endpoint.credentials is None:
            return
        certified = peer_name(self.pipe.transport)
        if certified is None or certified[0] != NODE:
            raise NodeUnavailable(
                f"the process that answers at {self.endpoint} has no node's certificate",
                "find out which process listens there",
            )

    def _unavailable(self, error: Exception) -> NodeUnavailable:
        error_text = str(error).rstrip(".") or type(error).__name__
        return NodeUnavailable(
            f"no node answers at {self.endpoint}: {error_text}",
            "check that the node runs, and give the --admin or --state-dir it was started with",
        )


def given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


# An older node ignores these filters, and would list all jobs.
_SEARCHES = frozenset({"tag", "payload", "error", "since", "until", "updated_since"})


class Admin:
    """A connection to a node's admin endpoint, made by `connect`.

    Methods return dictionaries with the keys of ``txqueue ... --json``; times are aware datetimes.
    Each raises `AdminRefused` for an argument that is not of its type, before anything is sent, and
    `NodeUnavailable` when the connection is lost or no answer comes in time.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    @classmethod
    async def connect(
        cls,
        endpoint: str,
        *,
        tls_dir: str | Path | None = None,
        name: str | None = None,
        identity: str | None = None,
        why: str | None = None,
        reactor: INetworkReactor | None = None,
    ) -> Self:
        """Connect to a node.

        Args:
            endpoint: Where the node listens: ``unix:PATH`` or ``tcp:PORT[:interface=ADDRESS]``.
            tls_dir: The folder of the certificates, for an endpoint beyond this host.
            name: The operator whose certificate identifies this client.
            identity: The queue that is meant, as ``select txqueue.identity()`` returns it; a node
                of another queue is refused. None for the queue of whichever node answers.
            why: Why acts are carried out; it is recorded with each.
            reactor: The reactor that connects; by default the running reactor.

        Raises:
            ConfigurationError: When the endpoint is not valid.
            NodeUnavailable: When no node answers at the endpoint, or one of another queue.
        """
        if reactor is None:
            from twisted.internet import reactor as running

            reactor = cast("INetworkReactor", running)
        credentials = None
        if tls_dir is not None and endpoint.startswith("tcp:"):
            credentials = Credentials(Path(tls_dir), name or "", OPERATOR)
            credentials.check()
        link = AdminLink(reactor, parsed_endpoint(endpoint, credentials))
        link.why = why
        await link.open()
        admin = cls(link)
        try:
            queue = None if identity is None else await admin.queue()
        except BaseException:
            admin.close()
            raise
        if queue is not None and queue.identity != identity:
            admin.close()
            raise NodeUnavailable(
                f"the node at {link.endpoint} serves {queue.place}: another queue than {identity}",
                "connect to a node of that queue",
            )
        return admin

    async def __aenter__(self) -> Self:
        """Return the connection."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    async def status(self) -> dict[str, Any]:
        """Return the queues, the nodes and the warnings."""
        return await self._link.document(wire.GetStatus, "status")

    async def health(self) -> dict[str, Any]:
        """Return whether the connected node is live and ready: keys live, ready and reason."""
        return await self._link.document(wire.GetHealth, "health")

    async def queue(self) -> QueueIdentity:
        """Return which queue the node serves, with the attributes ``identity`` and ``place``.

        Raises:
            AdminRefused: When the node is too old to tell.
        """
        return QueueIdentity(**await self._link.ask(wire.GetQueue))

    async def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes; the entry of the connected node includes its worker processes.

        Of more than a thousand, those that live or ended last.
        """
        return await self._link.whole(wire.ListNodes, "nodes")

    async def queues(self) -> list[dict[str, Any]]:
        """Return each queue's number of jobs by state, its oldest ready job's age, and its rate."""
        return await self._link.whole(wire.ListQueues, "queues")

    async def controls(self) -> list[dict[str, Any]]:
        """Return the pauses and limits of queues, groups and tenants."""
        return await self._link.whole(wire.ListControls, "controls")

    async def jobs_page(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
        running_for: float | None = None,
        tag: Sequence[str] | None = None,
        payload: Sequence[str] | None = None,
        **filters: str | None,
    ) -> JobsPage:
        """Return one page of jobs, the newest first.

        A page with ``tag``, ``payload``, ``error``, ``waiting_for`` or a time looks at a limited
        number of jobs, so that it may be empty and have a `next`.

        Args:
            after: The `next` of the previous page; None for the first page.
            limit: The largest number of jobs; a page has fewer if they are large.
            running_for: Only jobs that have been running for at least this many seconds, the
                longest first; there is no next page.
            tag: Only jobs with these tags, ``NAME=VALUE`` each, or ``NAME`` for any value.
            payload: Only jobs whose payload has these values, ``KEY=VALUE`` each.
            filters: ``state, queue, work_type, group, tenant``; ``node``, the name of the node that
                has or had it; ``fingerprint``, a kind of failure; ``error``, a part of the last
                error; ``since``, ``until`` and ``updated_since``, a moment or a length of time;
                ``waiting_for``, ``signal=NAME`` or the kind of a wait; ``act``, to list what this
                act on all that match changes. A filter that is None is ignored.

        Raises:
            AdminRefused: When a filter is not valid, or the node is too old for it.
        """
        lists = {"tag": tag or None, "payload": payload or None}
        arguments = given(after=after, limit=limit, running_for=running_for, **lists, **filters)
        answer = await self._link.ask(wire.ListJobs, **arguments)
        ignored_filters = _SEARCHES & arguments.keys() if answer.get("searched") is None else set()
        ignored_filters |= (wire.ListJobs.newer & arguments.keys()) - set(
            (answer.get("obeyed") or "").split()
        )
        if ignored_filters:
            raise AdminRefused(
                f"the node is too old for the filter {', '.join(sorted(ignored_filters))}",
                "upgrade the node, or leave out --node and read from the database",
            )
        jobs, at = read_document(answer["jobs"]), datetime.fromisoformat(answer["at"])
        return JobsPage(jobs, answer["next"] or None, at, answer.get("searched") or None)

    async def jobs(
        self, *, running_for: float | None = None, **filters: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield all jobs one by one, the newest first.

        Args:
            running_for: Only jobs that have been running for at least this many seconds: the 200
                that have run longest, the longest first.
            filters: As for `jobs_page`.
        """
        cursor = filters.pop("after", None)
        while True:
            page = await self.jobs_page(after=cursor, running_for=running_for, **filters)
            for job in page.jobs:
                yield job
            if (cursor := page.next) is None:
                return

    async def job(self, job_id: int) -> dict[str, Any]:
        """Return all that is stored about a job.

        Raises:
            AdminRefused: When no job has that number.
        """
        return await self._link.document(wire.GetJob, "job", job_id=job_id)

    async def explain(self, job_id: int) -> Explanation:
        """Explain why a job does not run, and what would make it run.

        Raises:
            AdminRefused: When no job has that number.
        """
        return Explanation(**await self._link.document(wire.Explain, "explanation", job_id=job_id))

    async def actions(self, subject: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield the acts of operators, the latest first.

        Args:
            subject: Only acts on this subject, such as ``queue mail`` or ``job 7``.
        """
        async for action in self._link.listed(wire.ListActions, "actions", subject=subject):
            yield action

    async def pause(self, key: str, kind: str = "queue") -> bool:
        """Pause a queue, a group or a tenant; return whether it was not paused before."""
        return await self._link.changed("pause", kind=kind, key=key)

    async def resume(self, key: str, kind: str = "queue") -> bool:
        """Resume a queue, a group or a tenant; return whether it was paused before."""
        return await self._link.changed("resume", kind=kind, key=key)

    async def set_limit(
        self, key: str, kind: str = "queue", *, cleared: Iterable[str] = (), **limits: float | None
    ) -> dict[str, Any] | None:
        """Limit a queue, a group or a tenant, effective at once on all nodes.

        Args:
            key: The name of the queue, group or tenant.
            kind: ``queue``, ``group`` or ``tenant``.
            cleared: The names of the limits to remove.
            limits: ``concurrency, rate, burst, share, reserve, backlog``; limits not given stay as
                they are.

        Returns:
            The limits that now apply; None if there are none.
        """
        cleared_names = ",".join(texts("cleared", cleared)) or None
        arguments = given(kind=kind, key=key, cleared=cleared_names, **limits)
        control: dict[str, Any] | None = read_document(
            (await self._link.act("set_limit", **arguments))["control"]
        )
        return control

    async def act(
        self, name: str, /, *, ids: Iterable[int] | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """Carry out an act by its name; the other methods do so for the acts of their names.

        Args:
            name: The name of the act's stored function, such as ``set_priority``.
            ids: The numbers of the jobs, for an act on jobs.
            arguments: The other arguments of its AMP command.

        Returns:
            The answer of the command, with lists for the numbers of jobs. ``acts``, or ``act``
            without jobs, has the numbers by which `undo` takes back what changed.

        Raises:
            AdminRefused: When there is no such act.
        """
        if name not in ACTS:
            raise AdminRefused(f"there is no act {name!r}", f"choose one of {', '.join(ACTS)}")
        if ids is None:
            return await self._link.act(name, **arguments)
        return await self._link.each(name, ids, **arguments)

    async def cancel(self, ids: Iterable[int]) -> Cancelled:
        """Cancel jobs."""
        answer = await self.act("cancel", ids=ids)
        return Cancelled(**{value.name: answer[value.name] for value in ACTS["cancel"].gives})

    async def restart(self, ids: Iterable[int], *, is_counted: bool = False) -> Restarted:
        """End the runs of assigned jobs, such as hung ones, and run the jobs again.

        Args:
            ids: The numbers of the jobs.
            is_counted: Whether the ended runs spend an attempt.
        """
        answer = await self.act("restart", ids=ids, is_counted=is_counted)
        return Restarted(**{value.name: answer[value.name] for value in ACTS["restart"].gives})

    async def retry(self, ids: Iterable[int]) -> tuple[list[int], list[int]]:
        """Retry failed and cancelled jobs; return the numbers of retried and of refused ones."""
        answer = await self.act("retry", ids=ids)
        return answer["retried"], answer["refused"]

    async def retry_from(self, job_id: int, step: str) -> int:
        """Retry a job from one of its steps on; return how many steps are done again."""
        answer = await self._link.act("retry_from", job_id=job_id, step=step)
        return int(answer["forgotten"])

    async def signal(
        self, job_id: int, name: str, value: Any = None, *, key: str | None = None
    ) -> bool:
        """Send a signal to a job; return whether it is new. See `Transaction.signal`."""
        text = None if value is None else signal_text(name, value)
        arguments = given(job_id=job_id, name=name, value=text, key=key)
        return bool((await self._link.act("send_signal", **arguments))["is_new"])

    async def set_priority(self, ids: Iterable[int], priority: int) -> tuple[list[int], list[int]]:
        """Change jobs' priority; return the numbers of changed and of refused jobs."""
        answer = await self.act("set_priority", ids=ids, priority=priority)
        return answer["changed"], answer["refused"]

    async def undo(self, act: int) -> tuple[list[int], dict[str, int]]:
        """Take back an act of the last hour.

        Args:
            act: The number of the act, as ``txqueue actions`` and `act` tell it.

        Returns:
            The numbers of the jobs that are as before, and how many jobs are not, by reason.

        Raises:
            AdminRefused: When the act cannot be undone.
        """
        answer = await self._link.act("undo", number=act)
        return numbers(answer["undone"]), read_document(answer["kept"])

    async def drain(self, name: str) -> bool:
        """Make a node accept no more jobs; return whether it was not draining before."""
        return await self._link.changed("drain_node", name=name)

    async def undrain(self, name: str) -> bool:
        """Let a draining node accept jobs again; return whether it was draining before."""
        return await self._link.changed("undrain_node", name=name)

    async def failures(self) -> list[dict[str, Any]]:
        """Return the kinds of failure of each work type, the first 1,000 by fingerprint.

        Returns:
            ``fingerprint, work_type, failed, waiting, first_seen, last_seen, example, error,
            is_more`` each. Failed and waiting jobs are counted up to 10,000; ``is_more`` tells
            whether there may be more.
        """
        return await self._link.whole(wire.ListFailures, "failures")

    async def act_on_failures(
        self, name: str, fingerprint: str, **arguments: Any
    ) -> tuple[int, datetime, list[int]]:
        """Act on all that have failed by one kind until now, as the three next methods do.

        Args:
            name: The name of such a method.
            fingerprint: The kind.
            arguments: Those of the act.

        Returns:
            How many jobs, the moment of the answer, and the numbers for `undo`.
        """
        counted, moment = (value.name for value in ACTS[name].gives)
        acts: list[int] = []
        total = 0
        while True:
            answer = await self._link.act(name, fingerprint=fingerprint, **arguments)
            total += answer[counted]
            acts += filter(None, [answer.get("act")])
            if not answer[counted]:
                return total, datetime.fromisoformat(answer[moment]), acts
            arguments[moment] = answer[moment]

    async def retry_failures(self, fingerprint: str) -> int:
        """Retry all jobs of one kind of failure; return how many."""
        return (await self.act_on_failures("retry_failures", fingerprint))[0]

    async def discard_failures(self, fingerprint: str) -> int:
        """Turn all failed jobs of one kind of failure into cancelled ones; return how many."""
        return (await self.act_on_failures("discard_failures", fingerprint))[0]

    async def postpone_failures(self, fingerprint: str, delay: float) -> tuple[int, datetime]:
        """Retry all jobs of one kind of failure after a delay in seconds.

        Returns:
            The number of jobs, and the time at which they are retried.
        """
        return (await self.act_on_failures("postpone_failures", fingerprint, delay=delay))[:2]

    async def edit_schedule(self, name: str, when: Schedule) -> bool:
        """Replace the times of a schedule; its work stays. Return whether anything changed."""
        terms = json.dumps(schedule_object(when))
        return await self._link.changed("edit_schedule", name=name, terms=terms)

    async def pause_schedule(self, name: str) -> bool:
        """Pause a schedule until it is resumed; return whether it was not paused before."""
        return await self._link.changed("pause_schedule", name=name)

    async def resume_schedule(self, name: str) -> bool:
        """Resume a schedule from its next due time on; return whether it was paused before."""
        return await self._link.changed("resume_schedule", name=name)

    async def remove_schedule(self, name: str) -> None:
        """Remove a schedule; its jobs stay."""
        await self._link.act("remove_schedule", name=name)

    async def run_schedule(self, name: str) -> int:
        """Enqueue a schedule's job now; return the job's number."""
        return int((await self._link.act("run_schedule", name=name))["job_id"])
