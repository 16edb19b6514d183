"""The client's end of direct dispatch: its connection to a node and the credit that it holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from txqueue.errors import ConfigurationError
from txqueue.model.assignment import Assignment
from txqueue.policy.backoff import Backoff
from txqueue.store.enqueueing.calls import NodeCredit
from txqueue.store.schema.files import QueueIdentity
from txqueue.system.clock import Timer
from txqueue.wire.commands import Credit, Deliver, Join, WakeNode, Withdraw, delivery
from txqueue.wire.endpoints import Endpoint, INetworkReactor
from txqueue.wire.pipe import PipeFactory, PromptPipe

PATIENCE = 3
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0


@define(eq=False, repr=False, slots=False)
class Membership:
    """Keeps this process joined to a node, and holds the credit that the node grants.

    While the node is away, the client has no credit and its jobs are claimed like any others.

    Args:
        reactor: Connects and schedules retries.
        endpoint: The node's admin endpoint, a unix socket.
        identity: Reads which queue it is, before each attempt to join: a restored
            database, or another one of the same name, is another queue.

    Attributes:
        delivered: How many committed jobs this process has sent to its node; no claim needs to take
            them.
    """

    # Twisted's ClientService does not fit: it logs every retry in the application's own log, where
    # one line per series is enough, and closes the transport before its producer, the prompt pipe,
    # is unregistered.

    log = Logger()

    _reactor: INetworkReactor
    _endpoint: Endpoint
    _identity: Callable[[], Awaitable[QueueIdentity]]

    def __attrs_post_init__(self) -> None:
        self._credits: dict[int, NodeCredit] = {}
        self._pipe: PromptPipe | None = None
        self._joining: Deferred[None] | None = None
        self._retry: Timer | None = None
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._is_open = False
        self.delivered = 0

    @property
    def credit(self) -> int:
        """The weight that may still be enqueued as assigned before the node grants more."""
        return sum(credit.weight for credit in self._credits.values())

    async def open(self) -> None:
        """Connect to the node, and reconnect until closed."""
        self._is_open = True
        await self._try()

    def close(self) -> None:
        """Leave the node."""
        self._is_open = False
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        if self._joining is not None:
            self._joining.cancel()
        if self._pipe is not None:
            # Jobs that were delivered last are still sent; later commits are delivered to no node.
            self._pipe.close()
            self._forget(self._pipe)

    def credit_for(self, weight: int) -> NodeCredit | None:
        """Return credit that covers a weight, for the joined node if possible; None for none."""
        for credit in self._credits.values():
            if credit.weight >= weight:
                return credit
        return None

    def deliver(self, jobs: Sequence[Assignment]) -> None:
        """Send committed jobs to the node; without this message, the node returns them."""
        if self._pipe is not None:
            heads, chunks = delivery(jobs)
            self._pipe.say_now(Deliver, heads=heads, chunks=chunks)
            self.delivered += len(jobs)

    def wake(self) -> None:
        """Make the node claim jobs, as some were committed that are not assigned to a node."""
        if self._pipe is not None:
            self._pipe.say_now(WakeNode)

    def _again(self) -> None:
        Deferred.fromCoroutine(self._try())

    async def _try(self) -> None:
        pipe = self._new_pipe()
        self._joining = Deferred.fromCoroutine(self._join(pipe))
        error: Exception | None = None
        try:
            await self._joining
        except Exception as caught:
            # Any error is survivable: the jobs are claimed instead.
            error = caught
        self._joining = None
        if error is not None:
            self._not_joined(pipe, error)

    def _new_pipe(self) -> PromptPipe:
        """Return a new pipe; once it is replaced, its messages are ignored."""

        def credit(**arguments: Any) -> dict[str, Any]:
            return self._credit(**arguments) if pipe is self._pipe else {}

        def withdraw(incarnation: int) -> dict[str, Any]:
            if pipe is self._pipe:
                self._credits.pop(incarnation, None)
            return {}

        pipe = PromptPipe({Credit: credit, Withdraw: withdraw}, lost=lambda: self._lost(pipe))
        return pipe

    async def _join(self, pipe: PromptPipe) -> None:
        queue = await self._identity()
        await self._endpoint.connect(self._reactor, PipeFactory(pipe), PATIENCE)
        self._pipe = pipe
        answer = await pipe.say(Join, identity=queue.identity, place=queue.place).addTimeout(
            PATIENCE, self._reactor
        )
        self._backoff.reset()
        self.log.info("joined node {name} at {place}", name=answer["name"], place=self._endpoint)

    def _not_joined(self, pipe: PromptPipe, error: Exception) -> None:
        self._forget(pipe)
        pipe.abort()
        if not self._is_open:
            return
        if self._backoff.is_fresh:
            self.log.warn(
                "not joined to the node at {place}: {error}; until then jobs are claimed",
                place=self._endpoint,
                error=str(error).rstrip(".") or type(error).__name__,
            )
        self._try_later()

    def _lost(self, pipe: PromptPipe) -> None:
        """Reconnect later, as the connection is lost; open calls fail by themselves."""
        self._forget(pipe)
        if self._joining is None and self._is_open:
            self._try_later()

    def _forget(self, pipe: PromptPipe) -> None:
        if self._pipe is pipe:
            self._pipe = None
            self._credits = {}

    def _try_later(self) -> None:
        if self._retry is None or not self._retry.active():
            self._retry = self._reactor.callLater(self._backoff.take(), self._again)

    def _credit(self, node_id: int, incarnation: int, weight: int, is_own: bool) -> dict[str, Any]:
        credit = self._credits.get(incarnation)
        if credit is not None:
            credit.weight += weight
            return {}
        added = {incarnation: NodeCredit(node_id, incarnation, weight, is_own)}
        self._credits = {**added, **self._credits} if is_own else {**self._credits, **added}
        return {}


def joinable(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint if a client may join a node there.

    Raises:
        ConfigurationError: When any account of this host could listen there.
    """
    if endpoint.path is None:
        raise ConfigurationError(
            f"a client cannot join a node at {endpoint}",
            "give the node's unix socket, such as unix:PATH, or an empty text to join none",
        )
    return endpoint
