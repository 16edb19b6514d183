"""The protocols by which services of a node call each other; tests have doubles of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from socket import AddressFamily
from typing import Any, Protocol

from twisted.internet.interfaces import (
    IReactorCore,
    IReactorProcess,
    IReactorSocket,
)
from twisted.internet.protocol import ProcessProtocol

from txqueue.model.assignment import (
    Assignment,
    CancelledJob,
    CompletedJobs,
    SettledJobs,
    StartedJob,
)
from txqueue.policy.placement.peers import NodeReport
from txqueue.policy.placement.room import Load, Room, Unstarted
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.system.clock import Clock
from txqueue.wire.endpoints import INetworkReactor


class Process(Protocol):
    """A started process: the part of Twisted's IProcessTransport that a node uses."""

    pid: int | None

    def signalProcess(self, signalID: str) -> None:
        """Send a signal to the process."""

    def closeChildFD(self, descriptor: int) -> None:
        """Close the pipe to a descriptor of the process."""


class Spawner(Clock, Protocol):
    """Starts processes: the parts of IReactorProcess and IReactorSocket that a node uses."""

    def spawnProcess(
        self,
        processProtocol: ProcessProtocol,
        executable: str,
        args: Sequence[str],
        env: Mapping[str, str],
        *,
        childFDs: Mapping[int, int | str] | None = None,
    ) -> Any:
        """Start a process; return a `Process`."""

    def adoptStreamConnection(
        self, fileDescriptor: int, addressFamily: AddressFamily, factory: Any
    ) -> object:
        """Add a connected socket to the reactor."""


class Stoppable(Protocol):
    """Stops the process: the part of IReactorCore that a node uses."""

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any) -> object:
        """Call a function once the reactor runs, at once if it already runs."""

    def stop(self) -> None:
        """Stop the reactor."""


class IMasterReactor(IStoreReactor, INetworkReactor, IReactorProcess, IReactorSocket, IReactorCore):
    """The reactor as a master needs it."""


class Capacity(Protocol):
    """The load of the workers and their room."""

    @property
    def room(self) -> Room:
        """What a claim may take: the room of all workers together."""

    @property
    def takes_suspects(self) -> bool:
        """Whether a suspect can get a process of its own."""

    @property
    def loads(self) -> list[Load]:
        """The load of each worker that may get jobs now: it answers, and is not for suspects."""

    @property
    def load(self) -> float:
        """The weight of the jobs that the workers hold, as a fraction of their capacity."""


class Holdings(Protocol):
    """The jobs that the workers hold."""

    @property
    def assignments(self) -> list[int]:
        """The numbers of the assignments of which the workers hold jobs."""

    @property
    def holdings(self) -> Counter[int]:
        """How many jobs of each assignment the workers hold."""

    async def holds(self, assignments: Collection[int]) -> dict[int, set[int]]:
        """Return which jobs of the given assignments the workers hold."""


class Executor(Capacity, Holdings, Protocol):
    """The workers together: they run jobs, hold them and have room for more."""

    def perform(self, assignments: Sequence[Assignment]) -> None:
        """Hand the jobs of assignments to the workers."""

    async def take_back(self, most: int | None = None) -> Unstarted:
        """Take unstarted jobs back from the workers: all, or the last ones up to a weight.

        Returns:
            The jobs that the workers will not start; the caller now has them.
        """

    def cancel(self, job: CancelledJob) -> None:
        """Make the worker that holds a cancelled job, if any, end the job."""


class Records(Protocol):
    """The writer of jobs' outcomes."""

    @property
    def mark(self) -> int:
        """A number that stands for all outcomes noted so far; see `has_written`."""

    def has_written(self, mark: int) -> bool:
        """Tell whether all outcomes are written that were noted before `mark` was read."""

    @property
    def is_clean(self) -> bool:
        """Whether all outcomes noted so far are written."""

    def start(self, jobs: Iterable[StartedJob]) -> None:
        """Note reports of running jobs."""


class GivenBack(Protocol):
    """The writer of returned jobs."""

    def give_back(self, assignment: int, *, died: bool, ids: list[int] | None = None) -> None:
        """Return jobs of an assignment to the queue.

        Args:
            assignment: The number of the assignment.
            died: Whether the process that held the jobs died.
            ids: The jobs' numbers; None for all that remain of the assignment.
        """


class EndListener(Protocol):
    """A service that acts on ended jobs."""

    @property
    def is_awaited(self) -> bool:
        """Whether clients wait for jobs to end, as far as it is known."""

    def ended(self, numbers: str) -> None:
        """Act on jobs whose ends are committed, by their numbers joined by commas."""


class Reports(GivenBack, Protocol):
    """Receives the reports of workers."""

    def complete(self, completed: CompletedJobs) -> None:
        """Note jobs that are done."""

    def committed(self, numbers: str) -> None:
        """Note jobs that their own transactions have completed, by number, joined by commas."""

    def settle(self, settled: SettledJobs) -> None:
        """Note jobs that ended otherwise than done, or with progress to store."""

    def start(self, jobs: Iterable[StartedJob]) -> None:
        """Note running jobs: those that run for longer than a second, or have new progress."""


class Description(Protocol):
    """The node's description of itself, for operators."""

    def describe(self) -> Mapping[str, Any]:
        """Return the description as plain data, without secrets or a query."""


class OwnReport(Protocol):
    """The node's report to its peers."""

    def now(self) -> NodeReport:
        """Return the current report."""


class RoomListener(Protocol):
    """A service that acts when workers have room."""

    def room_made(self) -> None:
        """Act on new room in a worker."""


class BacklogListener(Protocol):
    """A service that acts on the queue's backlog."""

    def looked(self, *, has_backlog: bool) -> None:
        """Act on whether a claim has left ready jobs."""


class BeatListener(Protocol):
    """A service that acts on heartbeats."""

    def heard(self, reply: HeartbeatReply) -> None:
        """Act on the answer to a heartbeat."""
