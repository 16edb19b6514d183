"""Decides, without I/O, how many jobs any session may enqueue as assigned to a node."""

from txqueue.policy.placement.dispatch import Room

__all__ = ["is_too_fast", "open_credit"]

# The most jobs for a node that is alone, and the most while there are others: it is used up soon,
# so that the nodes take turns.
MOST, TURN = 32, 8
# Jobs a second, and part of the time, from which on they are claimed, many at a time: the
# notification of a commit holds a lock of the whole server until the commit is on disk, so that
# other commits with notifications wait.
MOST_A_SECOND, MOST_OF_THE_TIME = 1_000, 0.5


def open_credit(room: Room, *, is_alone: bool) -> int:
    """Return how many jobs any session may enqueue as assigned to a node.

    Args:
        room: What the node's workers can still take.
        is_alone: Whether no other node can take the same jobs.
    """
    return min(MOST if is_alone else TURN, room.free // 2)


def is_too_fast(jobs: int, seconds: float, committing: float) -> bool:
    """Return whether jobs were enqueued too fast to be assigned one by one.

    Args:
        jobs: How many were enqueued as assigned.
        seconds: The time since they could be.
        committing: How long their commits took, in seconds.
    """
    return jobs > seconds * MOST_A_SECOND or committing > seconds * MOST_OF_THE_TIME
