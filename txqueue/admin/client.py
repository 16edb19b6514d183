"""Speaks with one node, which answers for the whole cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from attrs import frozen
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError

from txqueue.errors import AdminRefused, NodeUnavailable
from txqueue.policy.blockers import Explanation
from txqueue.policy.pagination import MOST_NUMBERS, joined, numbers, read_document
from txqueue.wire import admin_commands as wire
from txqueue.wire.endpoints import Endpoint, parsed_endpoint
from txqueue.wire.pipe import Pipe, PipeFactory
from txqueue.wire.tls import NODE, OPERATOR, Credentials, peer_name

__all__ = ["Admin", "Cancelled", "JobsPage"]

CONNECT_PATIENCE, PATIENCE = 10, 30


@frozen
class Cancelled:
    """What became of jobs that were to be cancelled.

    Attributes:
        cancelled: They have ended.
        requested: A node holds them: it was asked, or learns of it at its next heartbeat.
        refused: They had ended before, or there are no such jobs.
    """

    cancelled: list[int]
    requested: list[int]
    refused: list[int]


@frozen
class JobsPage:
    """Some of many jobs.

    Attributes:
        jobs: They.
        next: What to pass as `after` to go on; None after the last.
        at: The database's clock.
    """

    jobs: list[dict[str, Any]]
    next: str | None
    at: datetime


class Admin:
    """A connection to a node's admin endpoint; made by `connect`.

    Documents are dictionaries with the keys that ``txqueue ... --json`` shows; moments are aware
    datetimes.
    """

    def __init__(self, reactor: Any, endpoint: Endpoint) -> None:
        self._reactor = reactor
        self._endpoint = endpoint
        self._pipe = Pipe({}, lost=lambda: None)

    @classmethod
    async def connect(
        cls,
        endpoint: str,
        *,
        tls_dir: str | Path | None = None,
        name: str | None = None,
        reactor: Any = None,
    ) -> Self:
        """Connect to a node.

        Args:
            endpoint: Where it listens: ``unix:PATH`` or ``tcp:PORT[:interface=ADDRESS]``.
            tls_dir: Where the certificates are, for an endpoint beyond this host.
            name: The operator whose certificate is shown there.
            reactor: Connects; the one that runs by default.

        Raises:
            ConfigurationError: When that is no endpoint.
            NodeUnavailable: When no node answers there.
        """
        if reactor is None:
            from twisted.internet import reactor
        credentials = None
        if tls_dir is not None and endpoint.startswith("tcp:"):
            credentials = Credentials(Path(tls_dir), name or "", OPERATOR)
            credentials.check()
        admin = cls(reactor, parsed_endpoint(endpoint, credentials))
        await admin._open()
        return admin

    async def __aenter__(self) -> Self:
        """The connection itself."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Hang up."""
        transport: Any = self._pipe.transport
        if transport is not None:
            transport.abortConnection()

    async def status(self) -> dict[str, Any]:
        """Return the queues, the nodes and what is wrong."""
        return await self._document(wire.GetStatus, "status")

    async def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes; the one that is asked tells of its worker processes too."""
        return await self._whole(wire.ListNodes, "nodes")

    async def queues(self) -> list[dict[str, Any]]:
        """Return each queue's depth by state, its oldest ready job's age, and its rate."""
        return await self._whole(wire.ListQueues, "queues")

    async def controls(self) -> list[dict[str, Any]]:
        """Return what is paused or limited."""
        return await self._whole(wire.ListControls, "controls")

    async def jobs_page(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
        running_for: float | None = None,
        **filters: str | None,
    ) -> JobsPage:
        """Return some jobs, the newest first.

        Args:
            after: None to begin.
            limit: At most so many; fewer come if they are large.
            running_for: Only those that have run for so many seconds or longer, the longest first;
                no page follows.
            filters: ``state, queue, work_type, group, tenant``; what is None does not count.
        """
        chosen = _given(after=after, limit=limit, running_for=running_for, **filters)
        answer = await self._say(wire.ListJobs, **chosen)
        jobs, at = read_document(answer["jobs"]), datetime.fromisoformat(answer["at"])
        return JobsPage(jobs, answer["next"] or None, at)

    async def jobs(self, **filters: str | None) -> AsyncIterator[dict[str, Any]]:
        """Give jobs, the newest first, however many there are.

        Args:
            filters: As those of `jobs_page`.
        """
        after = None
        while True:
            page = await self.jobs_page(after=after, limit=None, running_for=None, **filters)
            for job in page.jobs:
                yield job
            if (after := page.next) is None:
                return

    async def job(self, job_id: int) -> dict[str, Any]:
        """Return all there is of a job.

        Raises:
            AdminRefused: When there is none of that number.
        """
        return await self._document(wire.GetJob, "job", job_id=job_id)

    async def explain(self, job_id: int) -> Explanation:
        """Say why a job does not run, and what would make it.

        Raises:
            AdminRefused: When there is none of that number.
        """
        return Explanation(**await self._document(wire.Explain, "explanation", job_id=job_id))

    async def actions(self, subject: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Give the acts of operators, the latest first.

        Args:
            subject: Only what was done to this, such as ``queue mail`` or ``job 7``.
        """
        after = None
        while True:
            answer = await self._say(wire.ListActions, **_given(subject=subject, after=after))
            for action in read_document(answer["actions"]):
                yield action
            if not (after := answer["next"]):
                return

    async def pause(self, key: str, kind: str = "queue") -> bool:
        """Start no job of a queue, a group or a tenant; tells whether that is new."""
        return await self._changed(wire.Pause, kind=kind, key=key)

    async def resume(self, key: str, kind: str = "queue") -> bool:
        """Start jobs of a queue, a group or a tenant again; tells whether that is new."""
        return await self._changed(wire.Resume, kind=kind, key=key)

    async def set_limit(
        self, key: str, kind: str = "queue", *, cleared: Iterable[str] = (), **limits: float | None
    ) -> dict[str, Any] | None:
        """Limit a queue, a group or a tenant while all run.

        Args:
            key: Its name.
            kind: Which of the three it is.
            cleared: Limits to lift.
            limits: ``concurrency, rate, burst, share, reserve, backlog``; what is not given stays.

        Returns:
            The control as it is then; None if nothing is limited any more.
        """
        lifted = ",".join(cleared) or None
        given = _given(kind=kind, key=key, cleared=lifted, **limits)
        control: dict[str, Any] | None = read_document(
            (await self._say(wire.SetLimit, **given))["control"]
        )
        return control

    async def cancel(self, ids: Sequence[int]) -> Cancelled:
        """Cancel jobs."""
        said = await self._each(wire.CancelJobs, ids)
        return Cancelled(said["cancelled"], said["requested"], said["refused"])

    async def retry(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Run failed and cancelled jobs again; returns those that do, and those that do not."""
        said = await self._each(wire.RetryJobs, ids)
        return said["retried"], said["refused"]

    async def set_priority(self, ids: Sequence[int], priority: int) -> tuple[list[int], list[int]]:
        """Give jobs another priority; returns those that have it, and those that cannot."""
        said = await self._each(wire.SetPriority, ids, priority=priority)
        return said["changed"], said["refused"]

    async def drain(self, name: str) -> bool:
        """Have a node take nothing more; tells whether that is new."""
        return await self._changed(wire.DrainNode, name=name)

    async def undrain(self, name: str) -> bool:
        """Have a draining node take jobs again; tells whether that is new."""
        return await self._changed(wire.UndrainNode, name=name)

    async def failures(self) -> list[dict[str, Any]]:
        """Return the kinds of failure that there are, by work type.

        Returns:
            ``fingerprint, work_type, failed, waiting, first_seen, last_seen, example, error`` each.
        """
        return await self._whole(wire.ListFailures, "failures")

    async def retry_failures(self, fingerprint: str) -> int:
        """Run again all jobs that have failed in one way until now; returns how many."""
        return (await self._repeated(wire.RetryFailures, "before", fingerprint=fingerprint))[0]

    async def discard_failures(self, fingerprint: str) -> int:
        """Count all jobs that failed for good in one way as cancelled; returns how many."""
        return (await self._repeated(wire.DiscardFailures, "before", fingerprint=fingerprint))[0]

    async def postpone_failures(self, fingerprint: str, delay: float) -> tuple[int, datetime]:
        """Run again all jobs that have failed in one way, but not before some seconds.

        Returns:
            How many, and the moment.
        """
        given: dict[str, Any] = {"fingerprint": fingerprint, "delay": delay}
        return await self._repeated(wire.PostponeFailures, "until", **given)

    async def pause_schedule(self, name: str) -> bool:
        """Pause a schedule until it is resumed; tells whether that is new."""
        return await self._changed(wire.ActOnSchedule, name=name, act="pause")

    async def resume_schedule(self, name: str) -> bool:
        """Make a schedule due again, from its next moment on; tells whether that is new."""
        return await self._changed(wire.ActOnSchedule, name=name, act="resume")

    async def remove_schedule(self, name: str) -> None:
        """Remove a schedule; its jobs stay."""
        await self._say(wire.ActOnSchedule, name=name, act="remove")

    async def run_schedule(self, name: str) -> int:
        """Enqueue a schedule's job now; returns the job's number."""
        return int((await self._say(wire.ActOnSchedule, name=name, act="run"))["job_id"])

    async def _open(self) -> None:
        try:
            await self._endpoint.connect(self._reactor, PipeFactory(self._pipe), CONNECT_PATIENCE)
        except (ConnectError, ConnectionClosed, DNSLookupError) as error:
            raise self._unavailable(error) from None

    async def _say(self, command: type[Any], **arguments: Any) -> dict[str, Any]:
        try:
            answer = self._pipe.say(command, **arguments)
            said: dict[str, Any] = await answer.addTimeout(PATIENCE, self._reactor)
        except (AdminRefused, CancelledError):
            raise
        except Exception as error:
            # Also what TLS says of a certificate that the other end does not believe.
            raise self._unavailable(error) from None
        self._ensure_node()
        return said

    def _ensure_node(self) -> None:
        """Over TLS only what a node says counts; an operator could listen there as well."""
        if self._endpoint.credentials is None:
            return
        named = peer_name(self._pipe.transport)
        if named is None or named[0] != NODE:
            raise NodeUnavailable(
                f"the process that answers at {self._endpoint} has no certificate of a node",
                "find out which process listens there",
            )

    def _unavailable(self, error: Exception) -> NodeUnavailable:
        said = str(error).rstrip(".") or type(error).__name__
        return NodeUnavailable(
            f"no node answers at {self._endpoint}: {said}",
            "see that it runs, and give the --admin or --state-dir that it was given",
        )

    async def _document(self, command: type[Any], name: str, **arguments: Any) -> dict[str, Any]:
        document: dict[str, Any] = read_document((await self._say(command, **arguments))[name])
        return document

    async def _whole(self, command: type[Any], name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            answer = await self._say(command, **_given(after=after or None))
            found += read_document(answer[name])
            if not (after := answer["next"]):
                return found

    async def _changed(self, command: type[Any], **arguments: Any) -> bool:
        return bool((await self._say(command, **arguments))["changed"])

    async def _repeated(
        self, command: type[Any], moment: str, **arguments: Any
    ) -> tuple[int, datetime]:
        """Act until no job is left of those that had failed at first; returns how many, and when.

        Args:
            command: What to send.
            moment: The name of the moment in its answer, which is sent along from then on.
            arguments: Those of the command.
        """
        [counted] = (name for key, _ in command.response if (name := key.decode()) != moment)
        total = 0
        while True:
            answer = await self._say(command, **arguments)
            total += answer[counted]
            if not answer[counted]:
                return total, datetime.fromisoformat(answer[moment])
            arguments[moment] = answer[moment]

    async def _each(
        self, command: type[Any], ids: Sequence[int], **arguments: Any
    ) -> dict[str, list[int]]:
        """Act on as many jobs as are named, some at a time."""
        sums: dict[str, list[int]] = {name.decode(): [] for name, _ in command.response}
        for start in range(0, len(ids), MOST_NUMBERS):
            some = joined(ids[start : start + MOST_NUMBERS])
            for name, text in (await self._say(command, ids=some, **arguments)).items():
                sums[name] += numbers(text)
        return sums


def _given(**arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}
