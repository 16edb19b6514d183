"""What services of a node ask of each other: small protocols, which tests play with doubles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Protocol

from txqueue.model.assignment import Assignment, CancelledJob
from txqueue.policy.balancing import NodeReport, Unstarted
from txqueue.policy.dispatch import Load, Room
from txqueue.store.functions import Beat

__all__ = [
    "BacklogListener",
    "BeatListener",
    "Capacity",
    "Executor",
    "GivenBack",
    "Holdings",
    "OwnReport",
    "Records",
    "RoomListener",
]


class Capacity(Protocol):
    """What the workers hold, and how much more they can be handed."""

    @property
    def room(self) -> Room:
        """What a claim may take."""

    @property
    def takes_suspects(self) -> bool:
        """Whether a job that may kill its process can be given one of its own."""

    @property
    def loads(self) -> list[Load]:
        """What each worker holds that may be handed any job."""

    @property
    def load(self) -> float:
        """Weight outstanding, as a fraction of capacity."""


class Executor(Protocol):
    """Has the workers perform jobs, or not."""

    def perform(self, assignments: Sequence[Assignment]) -> None:
        """Perform the jobs of assignments."""

    async def take_back(self, most: int | None = None) -> Unstarted:
        """Have the workers start nothing of what they hold, or not the last of it up to a weight.

        Returns:
            What they will not start, which is the caller's now.
        """

    def cancel(self, job: CancelledJob) -> None:
        """Have the worker that holds a cancelled job, if one does, end it."""


class Holdings(Protocol):
    """Which jobs the workers hold."""

    @property
    def assignments(self) -> list[int]:
        """The assignments that some worker holds."""

    @property
    def holdings(self) -> Counter[int]:
        """How many jobs of each assignment are held."""

    async def holds(self, assignments: Collection[int]) -> dict[int, set[int]]:
        """Return which jobs of some assignments are held."""


class Records(Protocol):
    """What writes down how jobs end."""

    @property
    def mark(self) -> int:
        """Stands for all that was noted so far."""

    def has_written(self, mark: int) -> bool:
        """Tell whether all is written that had been noted at a mark."""


class GivenBack(Protocol):
    """What writes down which jobs will not run here."""

    def give_back(self, assignment: int, *, died: bool, ids: list[int] | None = None) -> None:
        """Give back what is still assigned of an assignment, or some of its jobs."""


class OwnReport(Protocol):
    """What the node says of itself to its peers."""

    def now(self) -> NodeReport:
        """Return it as things are."""


class RoomListener(Protocol):
    """A service that may wait for room in the workers."""

    def room_made(self) -> None:
        """A worker can be handed more."""


class BacklogListener(Protocol):
    """A service that acts on whether the queue has a backlog."""

    def looked(self, *, has_backlog: bool) -> None:
        """A claim has left ready jobs behind, or none."""


class BeatListener(Protocol):
    """A service that acts on what heartbeats tell."""

    def heard(self, beat: Beat) -> None:
        """The lease is renewed; act on what the answer names."""
