"""Whether the node may take jobs: its lease, its life cycle, and the ports that live as long."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from attrs import define
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorCore
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.wire.endpoints import Endpoint, INetworkReactor


class Identity(NamedTuple):
    """The numbers that the database has given to a node and to this run of it."""

    node_id: int
    incarnation: int


class Lease:
    """The right to the jobs that are assigned to this run of the node.

    Args:
        seconds: How long the lease holds after a renewal.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._identity: Identity | None = None
        self._renewed_at = self._reached_at = float("-inf")

    @property
    def until(self) -> float:
        """When the lease expires, by the monotonic clock."""
        return self._renewed_at + self.seconds

    @property
    def remaining(self) -> float:
        """Seconds until the lease expires; 0 or less once it has expired."""
        return self.until - time.monotonic()

    @property
    def is_reached(self) -> bool:
        """Whether the database has answered this node within the last half of a lease."""
        return time.monotonic() - self._reached_at < self.seconds / 2

    @property
    def is_registered(self) -> bool:
        """Whether the node has an incarnation, even if its lease has expired."""
        return self._identity is not None

    @property
    def incarnation(self) -> int:
        """The incarnation, even after the lease has expired; 0 while the node is unregistered."""
        return self._identity.incarnation if self._identity else 0

    @property
    def identity(self) -> Identity | None:
        """The run's identity while its lease holds, else None."""
        return self._identity if time.monotonic() < self.until else None

    @property
    def reaching(self) -> Identity | None:
        """The run's identity while its lease holds and the database answers this node, else None.

        Without answers, a peer may still renew the lease.
        """
        return self.identity if self.is_reached else None

    def register(self, identity: Identity) -> None:
        """Begin a run of this identity; only `renew` starts its lease."""
        self._identity = identity

    def forget(self) -> None:
        """Forget the run's identity, as other nodes have taken its jobs."""
        self._identity = None

    def note_answer(self) -> None:
        """Note that the database has just answered this node."""
        self._reached_at = time.monotonic()

    def renew(self, began: float) -> None:
        """Let the lease count from `began`, by the monotonic clock, unless it counts from later."""
        self._renewed_at = max(began, self._renewed_at)


class Lifecycle:
    """The state of the node, as an operator, a signal or a failure has decided it.

    Args:
        reactor: Stopped when the node fails.

    Attributes:
        is_ending: Whether the node is stopping.
        has_failed: Whether the node stopped because another process has its name or port.
    """

    def __init__(self, reactor: IReactorCore) -> None:
        self._reactor = reactor
        self._is_drained = False
        self.is_ending = False
        self.has_failed = False

    @property
    def is_draining(self) -> bool:
        """Whether the node accepts no jobs, because an operator drains it or it is stopping."""
        return self._is_drained or self.is_ending

    def order(self, *, drain: bool) -> bool:
        """Note whether an operator drains the node; return whether this begins or ends draining."""
        was_draining, self._is_drained = self.is_draining, drain
        return self.is_draining != was_draining

    def end(self) -> None:
        """Note that the node is stopping."""
        self.is_ending = True

    def fail(self) -> None:
        """Note a failure and stop the process, unless it is already stopping."""
        if not self.is_ending:
            self.has_failed = True
            # The node may fail before the reactor runs.
            self._reactor.callWhenRunning(self._reactor.stop)


@define(eq=False, repr=False, slots=False)
class ListeningPort:
    """Listens at an endpoint, and stops the node if that fails.

    Args:
        reactor: Opens the port.
        endpoint: The endpoint's address.
        lifecycle: Stops the node.
    """

    log = Logger()

    _reactor: INetworkReactor
    _endpoint: Endpoint
    _lifecycle: Lifecycle

    def __attrs_post_init__(self) -> None:
        self._listening: Deferred[Any] = succeed(None)

    def open(self, server: Factory) -> None:
        """Start to listen for connections, which the server handles."""
        self._listening = self._endpoint.listen(self._reactor, server)
        self._listening.addErrback(self._cannot_listen)

    def close(self) -> Deferred[None]:
        """Stop listening; harmless if it does not listen."""
        return self._listening.addCallback(
            lambda port: None if port is None else port.stopListening()
        )

    def _cannot_listen(self, failure: Failure) -> None:
        self.log.critical(
            "cannot listen at {endpoint}: {error}; this node stops",
            endpoint=self._endpoint,
            error=failure.value,
        )
        self._lifecycle.fail()
