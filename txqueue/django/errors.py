"""What an attempt of a task shows as its error if no exception of the task was its end."""

from __future__ import annotations

__all__ = ["AttemptFailed", "OtherTransaction", "TaskCancelled"]


class TaskCancelled(Exception):
    """The class of a `TaskError`: the task was cancelled, discarded, or had expired."""


class AttemptFailed(Exception):
    """The class of a `TaskError`: the attempt failed by no exception that can be imported here.

    Its worker process has died, for example, or the exception's class is one of the nodes alone.
    """


class OtherTransaction(UserWarning):
    """A task was enqueued inside of `atomic`, which is that of another database.

    The task is committed at once, so it also runs if the transaction is rolled back.
    """
