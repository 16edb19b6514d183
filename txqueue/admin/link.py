"""The connection to a node's admin endpoint: commands, and answers that come in parts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from twisted.internet.defer import CancelledError, TimeoutError
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError

from txqueue.errors import AdminRefused, NodeUnavailable
from txqueue.policy.pagination import MOST_NUMBERS, join_numbers, numbers, read_document
from txqueue.wire.admin_arguments import checked_arguments, whole_numbers
from txqueue.wire.endpoints import Endpoint, INetworkReactor
from txqueue.wire.pipe import Pipe, PipeFactory, UnhandledCommand
from txqueue.wire.tls import NODE, peer_name

__all__ = ["AdminLink", "given"]

CONNECT_PATIENCE, PATIENCE = 10, 30


class AdminLink:
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

    async def document(self, command: type[Any], name: str, **arguments: Any) -> dict[str, Any]:
        """Return the document in a command's answer."""
        document: dict[str, Any] = read_document((await self.ask(command, **arguments))[name])
        return document

    async def whole(self, command: type[Any], name: str) -> list[dict[str, Any]]:
        """Return a list from all its pages."""
        rows: list[dict[str, Any]] = []
        cursor = ""
        while True:
            answer = await self.ask(command, **given(after=cursor or None))
            rows += read_document(answer[name])
            if not (cursor := answer["next"]):
                return rows

    async def changed(self, command: type[Any], **arguments: Any) -> bool:
        """Send a command; return whether it has changed anything."""
        return bool((await self.ask(command, **arguments))["changed"])

    async def repeated(
        self, command: type[Any], moment_name: str, **arguments: Any
    ) -> tuple[int, datetime]:
        """Repeat a command, which acts on some jobs at a time, until it has acted on all.

        Jobs that fail after the first call are left out.

        Args:
            command: The command to send.
            moment_name: The name of the time in the command's answer, which further calls pass.
            arguments: The command's arguments.
        """
        [count_name] = (
            name for key, _ in command.response if (name := key.decode()) != moment_name
        )
        total = 0
        while True:
            answer = await self.ask(command, **arguments)
            total += answer[count_name]
            if not answer[count_name]:
                return total, datetime.fromisoformat(answer[moment_name])
            arguments[moment_name] = answer[moment_name]

    async def each(
        self, command: type[Any], ids: Iterable[int], **arguments: Any
    ) -> dict[str, list[int]]:
        """Send a command for all the jobs, some at a time, and merge the answers."""
        sums: dict[str, list[int]] = {name.decode(): [] for name, _ in command.response}
        job_ids = whole_numbers("ids", ids)
        for start in range(0, len(job_ids), MOST_NUMBERS):
            part = join_numbers(job_ids[start : start + MOST_NUMBERS])
            for name, text in (await self.ask(command, ids=part, **arguments)).items():
                sums[name] += numbers(text)
        return sums


def given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}
